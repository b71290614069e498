"""`python -m e2e.bench.asks [--rate N] [--rounds N] [--creates N]`: creates through the gate beside many asks.

In each round pods are created one by one under a cap in three parts, in a random order: alone, beside asks of tenants
at a fixed rate, and beside the same asks to a server that answers with a constant. The last is the floor: all processes
share this machine, and the asks have to be sent. Each tenant asks more often than he may: most asks are refused.
"""

import json
import os
import platform
import random
import signal
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from enum import StrEnum
from pathlib import Path
from statistics import median, quantiles
from typing import Final, NamedTuple

import click

from e2e.bench.client import Client, load_access
from e2e.errors import ClusterError
from e2e.extra_gates import run_ledger_gate, until_cap_is_active
from e2e.gates.asks import AskServer, create_ask_token, create_asks_account
from e2e.gates.running import LOOPBACK
from e2e.go_program import GoProgram
from e2e.local.build import kubernetes_version
from e2e.local.component import Component, Launch, start_new_process
from e2e.namespaces import label, new_namespace
from e2e.pods import DONGLE, pod
from e2e.ports import Site
from e2e.providers.local import local
from e2e.tenant import tenant
from e2e.waiting import until

_LOAD: Final = Path(__file__).parent / "ask_load"
_TENANTS: Final = 4
_CREATED: Final = 201
_WITHIN: Final = 240.0
_MILLI: Final = 1000.0
_HARD: Final = 1_000_000
_CAP: Final = f"""\
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {{name: dongles}}
spec:
  namespaces: {{selector: {{matchLabels: {{asks: "yes"}}}}}}
  shared: true
  hard: {{{DONGLE}: {_HARD}}}
"""


class Part(StrEnum):
    """The load beside the creates."""

    ALONE = "alone"
    FLOOR = "a server that does nothing"
    ASKS = "the server of asks"


class Bench(NamedTuple):
    """The site, its client, a namespace for creates, and the addresses of both servers with the CA of each."""

    site: Site
    client: Client
    namespace: str
    program: Path
    folder: Path
    servers: dict[Part, tuple[str, Path]]


@click.command()
@click.option("--rate", type=click.IntRange(1), default=1000, show_default=True, help="Asks a second.")
@click.option("--rounds", type=click.IntRange(1), default=10, show_default=True, help="Rounds of the three parts.")
@click.option("--creates", type=click.IntRange(1), default=200, show_default=True, help="Creates in each part.")
def main(rate: int, rounds: int, creates: int) -> None:
    """Measure what asks cost those who create pods; progress on stderr."""
    seconds: dict[Part, list[float]] = {part: [] for part in Part}
    p99s: dict[Part, list[float]] = {part: [] for part in Part}
    answers: dict[Part, Counter[str]] = {part: Counter() for part in Part}
    load = os.getloadavg()[0]
    with _open_bench() as bench:
        for number in range(rounds):
            click.echo(f"round {number + 1} of {rounds} …", err=True)
            for part in random.sample(list(Part), len(Part)):
                measured, counted = _measure(bench, part, rate, creates)
                seconds[part] += measured
                p99s[part].append(_p99(measured))
                answers[part] += counted
    click.echo(
        f"Kubernetes {kubernetes_version()} and everything else on {os.cpu_count()} cores, Python "
        f"{platform.python_version()}; load before: {load:.1f}. {rounds} rounds of {creates} creates, {rate} asks a "
        "second.\n"
    )
    columns = ("beside", "p50 ms", "p99 ms", "p99 to alone", "p99 to the floor", "answers")
    for cells in (columns, ["---"] * len(columns)):
        click.echo(f"| {' | '.join(cells)} |")
    for part in Part:
        alone, floor = _p99(seconds[part]) / _p99(seconds[Part.ALONE]), _p99(seconds[part]) / _p99(seconds[Part.FLOOR])
        shown = ", ".join(f"{status}: {count:,}" for status, count in sorted(answers[part].items()))
        p50, p99 = median(seconds[part]) * _MILLI, _p99(seconds[part]) * _MILLI
        click.echo(f"| {part} | {p50:.1f} | {p99:.1f} | {alone:.2f} | {floor:.2f} | {shown} |")


def _p99(seconds: list[float]) -> float:
    return quantiles(seconds, n=100, method="inclusive")[98]


@contextmanager
def _open_bench() -> Iterator[Bench]:
    """Run a gate with ledgers in the cluster, a server of asks and one that does nothing.

    Raises:
        ClusterError: if something does not start.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tallygate-asks-")))
        site = stack.enter_context(local())
        own, namespace = (stack.enter_context(new_namespace(site.cluster, begins)) for begins in ("gate-", "bench-"))
        label(site.cluster, namespace, {"asks": "yes"})
        gate = stack.enter_context(run_ledger_gate(site, folder / "gate", {"cap.yaml": _CAP}, own))
        kubeconfig = create_asks_account(site.cluster, folder)
        asks = stack.enter_context(AskServer(folder / "asks", kubeconfig, gate.policies, start=start_new_process))
        tenants = []
        for _ in range(_TENANTS):
            someone = stack.enter_context(tenant(site.cluster, folder, asks="yes"))
            token = create_ask_token(site.cluster, someone.namespace, "tenant", "tallygate")
            tenants.append(f"{someone.namespace} {token}")
        (folder / "tenants").write_text("\n".join(tenants))
        (folder / "body").write_text(json.dumps(pod(site, "asked")))
        program = GoProgram("ask-load", "the load of asks", ".", _LOAD).program()
        certificates = folder / "asks" / "certs"
        idle = _run_idle(program, certificates, folder, stack)
        servers = {Part.ASKS: (asks.url, certificates / "ca.crt"), Part.FLOOR: (idle, certificates / "ca.crt")}
        access = load_access(site.cluster.kubeconfig, folder)
        client = stack.enter_context(closing(Client(access)))
        until_cap_is_active(site.cluster, namespace, pod(site, "large", str(_HARD + 1)))
        yield Bench(site, client, namespace, program, folder, servers)


def _run_idle(program: Path, certificates: Path, folder: Path, stack: ExitStack) -> str:
    """Run the server that does nothing, and return its URL."""
    component = Component(Launch("idle", (str(program), "serve", str(certificates)), ""), folder, {})
    stack.callback(component.stop)
    until("it names its port", lambda: "port" in component.log.read_text(), _WITHIN, component.log_end)
    port = json.loads(component.log.read_text().splitlines()[0])["port"]
    return f"https://{LOOPBACK}:{port}"


def _measure(bench: Bench, part: Part, rate: int, creates: int) -> tuple[list[float], Counter[str]]:
    """Return the seconds of creates beside a load, and the answers to its asks by status."""
    with _send_asks(bench, part, rate) as answers:
        measured = [_create(bench, f"{part.name.lower()}-{number}") for number in range(creates)]
    bench.client.delete_pods(bench.namespace)
    return measured, answers


@contextmanager
def _send_asks(bench: Bench, part: Part, rate: int) -> Iterator[Counter[str]]:
    """Send asks for as long as the block runs; afterwards the yielded counter has the answers by status."""
    answers = Counter[str]()
    if part is Part.ALONE:
        yield answers
        return
    url, authority = bench.servers[part]
    command = (bench.program, "send", f"{url}/v1/ask", authority, str(rate), bench.folder / "body")
    with subprocess.Popen(  # noqa: S603  built, no shell
        (*command, bench.folder / "tenants"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield answers
        output, _ = process.communicate()
    answers.update(json.loads(output))


def _create(bench: Bench, name: str) -> float:
    created = bench.client.create(bench.namespace, json.dumps(pod(bench.site, name)).encode())
    if created.status != _CREATED:
        raise ClusterError(f"a pod is not stored: {created.status} {created.body.decode()}")
    return created.seconds


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    main()
