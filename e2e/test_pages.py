"""The examples of docs/ that need a cluster: commands of kubectl, with the policies and the files of the page."""

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from e2e.command_output import run_kubectl, run_tallygate
from e2e.extra_gates import require_gate_process, run_ledger_gate, run_watching_gate
from e2e.gates.asks import AskServer, provide_asks_account
from e2e.gates.process import GateProcess
from e2e.namespaces import gates_namespace, until_it_takes_pods
from e2e.node_resources import DONGLES, advertise
from e2e.ports import Site
from e2e.tenant import Tenant
from e2e.terminal import Terminal
from e2e.waiting import until
from tallygate.admission.webhook_configuration import DEFAULT_NAMESPACE
from tallygate.state.kubernetes.ask_address_store import ASK_NAME
from tests.pages.page import Page
from tests.pages.page_examples import is_offline, list_played_pages, play

_NAMESPACE = "team-a"
_PAGE_URL = "--page-url=https://gate.example.com"
_GPUS = {"nvidia.com/gpu": "8"}
_OF_TENANTS = frozenset({"tasks/for-developers.md"})
"""The pages whose commands a tenant types, who is answered by a server of asks."""

_WITHIN = 120.0  # seconds, until the gate has counted a pod


def needs_cluster(block: str) -> bool:
    """Return whether a block is played here."""
    return not is_offline(block)


_PAGES = [page for page in list_played_pages() if any(needs_cluster(block[2]) for block in page.list_blocks("console"))]


@pytest.fixture(autouse=True)
def gpus(site: Site) -> Iterator[None]:
    """Let the node advertise GPUs, which the examples request, until the end of the case."""
    require_gate_process(site)
    advertise(site.cluster, site.node, site.own | DONGLES | _GPUS)
    yield
    advertise(site.cluster, site.node, site.own | DONGLES)


@contextmanager
def create_namespace(site: Site) -> Iterator[None]:
    """Create the namespace of all examples; after the block it is deleted, and its pods with it."""
    run_kubectl(site.cluster, "create", "namespace", _NAMESPACE)
    try:
        until_it_takes_pods(site.cluster, _NAMESPACE)
        yield
    finally:
        run_kubectl(site.cluster, "delete", "namespace", _NAMESPACE)


def _hide_moving(printed: str) -> str:
    """Return an output with the address, the times and the revision of an answer as they stand in the page."""
    printed = re.sub(r"https://127\.0\.0\.1:[0-9]+", f"https://{ASK_NAME}.{DEFAULT_NAMESPACE}.svc:443", printed)
    printed = re.sub(r"revision [0-9]+", "revision 4711", printed)
    return re.sub(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z", "2026-11-29T12:00:00Z", printed)


@contextmanager
def _run_asks(site: Site, folder: Path, gate: GateProcess) -> Iterator[Path]:
    """Run a server of asks that every user finds, and yield the kubeconfig of a tenant once it answers him."""
    someone = Tenant(site.cluster, _NAMESPACE, folder)
    with (
        provide_asks_account(site.cluster, folder) as account,
        AskServer(folder / "asks", account, gate.policies) as asks,
    ):
        asks.publish(site.cluster)
        ask = ("usage", "--kubeconfig", str(someone.kubeconfig), "-n", _NAMESPACE)
        until("he is answered", lambda: run_tallygate(site.cluster, *ask).returncode == 0, _WITHIN, asks.log)
        yield someone.kubeconfig


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: page.name)
def test_the_examples_of_a_page_print_what_it_shows(
    page: Page, site: Site, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    policies, folder, is_of_tenant = page.list_policies(), tmp_path / "gate", page.name in _OF_TENANTS
    with ExitStack() as stack:
        if is_of_tenant:
            gates = gates_namespace(site.cluster)
            gate = stack.enter_context(run_ledger_gate(site, folder, policies, gates, further=(_PAGE_URL,)))
        else:
            gate = stack.enter_context(run_watching_gate(site, folder, policies, arguments=("--in-flight-bound=2s",)))
        stack.enter_context(create_namespace(site))
        user = stack.enter_context(_run_asks(site, tmp_path, gate)) if is_of_tenant else None
        terminal = Terminal(site, _NAMESPACE, tmp_path, user)
        for name, content in page.list_files().items():
            (tmp_path / name).write_text(content)

        def run(words: list[str]) -> str:
            printed = terminal.run(words)
            if printed.endswith(" created\n"):
                until("the pod is counted", lambda: is_settled(gate), _WITHIN)
            return _hide_moving(printed) if is_of_tenant else printed

        now = play(page, run, needs_cluster)
    if pytestconfig.getoption("--record"):
        page.path.write_text(now)
    assert now == page.read()


def is_settled(gate: GateProcess) -> bool:
    """Return whether each reservation of the gate is counted in the used amounts."""
    lines = [line for line in gate.metrics().splitlines() if line.startswith("tallygate_cap_reservations{")]
    return bool(lines) and not any(float(line.rpartition(" ")[2]) for line in lines)
