"""Everything that the bench needs in the cluster and beside it: made before, and gone after."""

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from certs.certificate_names import parse_names
from certs.renewal import issue
from e2e.api import api
from e2e.bench import registered
from e2e.bench.calls import Calls, calls_of
from e2e.bench.client import Access, Client, access
from e2e.bench.objects import LEFT, PLENTY, cap, ledger, namespace, pod, quota
from e2e.bench.servers import flask_port, floor_port
from e2e.bench.variants import (
    CAP,
    EVERY,
    FLOOR,
    FLOOR_HTTP2,
    FLOOR_KEPT,
    KEPT,
    OPEN,
    PHASES,
    QUOTA,
    REFUSING,
    RULES,
    Variant,
)
from e2e.errors import ClusterError
from e2e.gates.process import GateProcess
from e2e.ledgers import forget_ledgers, ledgers_in, ledgers_of
from e2e.local.cluster import LocalCluster
from e2e.policy_files import SHIPPED_FILES
from e2e.service_account import as_service_account
from e2e.waiting import until
from webhook.state.kubernetes.cap_ledger import StoredVersion, decode_ledger
from webhook.state.ports import LedgerKey

_WITHIN = 240.0  # seconds until something is active; a cap in the cluster takes the in-flight bound of 40 s and more
_CREATED = 201
_FORBIDDEN = 403
_CONFIGURATIONS = ("mutatingwebhookconfiguration,validatingwebhookconfiguration", "--ignore-not-found")
_OWN = "bench-gate"
_FOLLOWED = Path(__file__).parents[2] / "deploy" / "kustomize" / "components" / "cluster-access"
_CAPS = {KEPT: "kept", OPEN: "kept-open"}
"""The caps that one gate keeps in the cluster: it follows all pods, and two gates would do so twice."""


@dataclass(frozen=True)
class Ground:
    """The namespaces are there, their pods can be created, and every server has been asked."""

    cluster: LocalCluster
    access: Access
    client: Client
    gates: Mapping[Variant, GateProcess]
    _numbers: Iterator[int] = field(default_factory=count)

    def pods(self, how_many: int, prefix: str = "bench") -> list[bytes]:
        """Manifests of pods whose names were never used."""
        return [pod(f"{prefix}-{next(self._numbers)}") for _ in range(how_many)]

    def open_reservations(self) -> int:
        """The number of reservations, in the ledger that has many, for pods that were refused afterwards."""
        (found,) = (each for each in ledgers_of(self.cluster, _OWN) if each["spec"].get("namespace") == OPEN.namespace)
        decoded = decode_ledger(json.dumps(found).encode(), LedgerKey(found["spec"]["cap"], OPEN.namespace))
        return sum(row.name.startswith(LEFT) for row in decoded.ledger.reservations.values())

    def begin_cap(self, hard: int = PLENTY) -> None:
        """Put a new cap in place of the old one: its ledger is empty."""
        policy = cap(f"bench-{next(self._numbers)}", CAP.namespace, hard)
        self.gates[CAP].write_policies(_policies(CAP, policy))

    def calls(self) -> dict[Variant, Calls]:
        """What the API server has counted so far of its calls to the servers."""
        said = self.client.read("/metrics")
        return {variant: calls_of(said, variant) for variant in EVERY}

    def clear(self) -> None:
        """Delete all pods, and wait until the quota has noticed, so that nobody is still busy with them."""
        for variant in EVERY:
            self.client.delete_pods(variant.namespace)
        until("the quota counts no pod", self._quota_is_free, _WITHIN)

    def used(self) -> str:
        """How much of the quota is used, by its status; empty when it has none yet."""
        shown = "--output=jsonpath={.status.used.requests\\.nvidia\\.com/gpu}"
        return _said(self.cluster, "get", "resourcequota", "bench", f"--namespace={QUOTA.namespace}", shown)

    def _quota_is_free(self) -> bool:
        return self.used() == "0"


@contextmanager
def ground(cluster: LocalCluster) -> Iterator[Ground]:
    """Make it, and take it away.

    Raises:
        ClusterError: the API server refuses something, or a server is not asked in time.
    """
    with ExitStack() as ends:
        folder = Path(ends.enter_context(TemporaryDirectory(prefix="tallygate-bench-")))
        asks = access(cluster.kubeconfig, folder)
        client = Client(asks)
        ends.callback(client.close)
        made = Ground(cluster, asks, client, _processes(folder))
        made.begin_cap()
        ends.callback(_delete, cluster, "namespace", "--wait=false", "--ignore-not-found", _OWN)
        ends.callback(forget_ledgers, cluster, _OWN)
        kept = [cap(name, variant.namespace, PLENTY) for variant, name in _CAPS.items()]
        made.gates[KEPT].write_policies(_policies(KEPT, *kept))
        _let_keep(cluster, folder / KEPT.name / "kubeconfig")
        ends.callback(_delete, cluster, "namespace", "--wait=false", registered.SERVERS, *_namespaces())
        _apply(cluster, [namespace(name) for name in (registered.SERVERS, *_namespaces())])
        quotas = [quota("bench", QUOTA.namespace), quota("bench", QUOTA.full, 0)]
        _apply(cluster, [*quotas, *(registered.service(each) for each in EVERY if each.asked)])
        configurations = [registered.LEFTOVERS, *(each.namespace for each in EVERY if each.asked)]
        ends.callback(_delete, cluster, *_CONFIGURATIONS, *configurations)
        servers = [*_floor(cluster, folder, ends), *_trivial(folder, ends), *_gates(made, ends)]
        _apply(cluster, servers)
        for variant in EVERY:
            until(f"pods of {variant.namespace} are created as they should be", _Tried(made, variant), _WITHIN)
        for variant in REFUSING:
            until(f"pods of {variant.full} are refused", partial(_is_refused, made, variant), _WITHIN)
        made.clear()
        yield made


def _processes(folder: Path) -> dict[Variant, GateProcess]:
    """The gates, stopped: two by themselves, and one that follows the cluster and keeps its ledgers there.

    All run with the settings that a gate has by default.
    """
    follows = (
        f"--kubeconfig={folder / KEPT.name / 'kubeconfig'}",
        "--cluster=kubeconfig",
        "--ledgers=kubernetes",
        f"--namespace={_OWN}",
    )
    kept = GateProcess(folder / KEPT.name, arguments=follows, anew=True)
    return {each: GateProcess(folder / each.name, anew=True) for each in (RULES, CAP)} | {KEPT: kept}


@dataclass(frozen=True)
class _Tried:
    """Whether a pod of a variant is stored, after the calls to its server where it has one."""

    ground: Ground
    variant: Variant

    def __call__(self) -> bool:
        before = self.ground.calls()[self.variant].number
        (body,) = self.ground.pods(1)
        stored = self.ground.client.create(self.variant.namespace, body).status == _CREATED
        asked = self.ground.calls()[self.variant].number - before
        return stored and asked == (len(PHASES.get(self.variant, ("validating",))) if self.variant.asked else 0)


def _is_refused(made: Ground, variant: Variant) -> bool:
    (body,) = made.pods(1)
    return made.client.create(variant.full, body).status == _FORBIDDEN


def _policies(variant: Variant, *caps: dict[str, Any]) -> dict[str, str]:
    """The shipped ones, these caps, and one of nothing."""
    own = [*caps, cap(f"{variant.name}-full", variant.full, 0)]
    return {**SHIPPED_FILES, "caps.yaml": "\n---\n".join(map(json.dumps, own))}


def _let_keep(cluster: LocalCluster, kubeconfig: Path) -> None:
    """What the gate needs that keeps its ledgers: their definition, and a ServiceAccount with a gate's rights.

    As in a cluster it shows a token, which the API server remembers for ten seconds; a certificate it verifies anew.
    """
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": _OWN, "namespace": _OWN}}
    rights = (_FOLLOWED / "rbac.yaml").read_text().replace("tallygate-system", _OWN)
    _apply(cluster, [namespace(_OWN), account])
    _said(cluster, "apply", "--server-side", f"--filename={_FOLLOWED / 'crd.yaml'}")
    _said(cluster, "apply", "--server-side", "--filename=-", stdin=rights.replace("name: tallygate", f"name: {_OWN}"))
    as_service_account(cluster, _OWN, _OWN, kubeconfig)


def _floor(cluster: LocalCluster, within: Path, ends: ExitStack) -> list[dict[str, Any]]:
    """Run the constant answer; its configurations: by both versions of HTTP, after a write, and of leftovers."""
    folder, written = within / FLOOR.name, within / FLOOR.name / "ledger.json"
    names = parse_names([registered.host(FLOOR), registered.host(FLOOR_KEPT), registered.LOOPBACK])
    issue(folder, names, datetime.now(UTC))
    stored = api(cluster.kubeconfig).create(ledgers_in(_OWN), json.loads(ledger(_OWN)))["metadata"]
    written.write_bytes(ledger(_OWN, StoredVersion(stored["uid"], stored["resourceVersion"], "", "")))
    port = floor_port(folder, within / KEPT.name / "kubeconfig", written, ends)
    authority = (folder / "ca.crt").read_bytes()
    constant = [registered.constant(variant, port, authority) for variant in (FLOOR, FLOOR_HTTP2, FLOOR_KEPT)]
    return [*constant, registered.leftovers(OPEN, port, authority)]


def _trivial(within: Path, ends: ExitStack) -> Iterator[dict[str, Any]]:
    """Run the trivial webhooks, each by itself; their configurations."""
    for variant in PHASES:
        folder = within / variant.name
        issue(folder, parse_names([registered.host(variant)]), datetime.now(UTC))
        port = flask_port(variant.name, folder, ends)
        yield from registered.trivial(variant, port, (folder / "ca.crt").read_bytes())


def _gates(made: Ground, ends: ExitStack) -> Iterator[dict[str, Any]]:
    """Run the gates; their configurations."""
    for first, gate in made.gates.items():
        variants = tuple(_CAPS) if first is KEPT else (first,)
        issue(gate.certificates, parse_names([registered.host(each) for each in variants]), datetime.now(UTC))
        ends.callback(gate.stop)
        gate.start()
        port = int(gate.reached.base.rpartition(":")[2])
        for variant in variants:
            yield from registered.gate(variant, port, (gate.certificates / "ca.crt").read_bytes())


def _namespaces() -> list[str]:
    return [*(variant.namespace for variant in EVERY), *(variant.full for variant in REFUSING)]


def _apply(cluster: LocalCluster, objects: list[dict[str, Any]]) -> None:
    _said(
        cluster,
        *("apply", "--server-side", "--filename=-"),
        stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}),
    )


def _delete(cluster: LocalCluster, *what: str) -> None:
    _said(cluster, "delete", *what)


def _said(cluster: LocalCluster, *args: str, stdin: str | None = None) -> str:
    done = cluster.kubectl(*args, stdin=stdin)
    if done.returncode:
        raise ClusterError(f"kubectl {args[0]}: {done.stderr.strip()}")
    return done.stdout
