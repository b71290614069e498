"""The objects and processes of the bench: created before it, and deleted after it."""

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
from uuid import uuid4

from e2e.api import api
from e2e.bench import registrations
from e2e.bench.calls import Calls, parse_calls
from e2e.bench.client import Access, Client, load_access
from e2e.bench.objects import LEFT, PLENTY, cap, create_failed_reservation, ledger, namespace, pod, quota
from e2e.bench.policy_folder import compile_objects, create_conditions, create_files
from e2e.bench.servers import flask_port, floor_port
from e2e.bench.variants import (
    BACKSTOP,
    CAP,
    CONDITIONS,
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
    UNCOUNTED,
    Variant,
)
from e2e.errors import ClusterError
from e2e.gates.process import GateProcess
from e2e.ledgers import define_ledgers, delete_ledgers, get_ledgers_path, list_ledgers
from e2e.local.cluster import LocalCluster
from e2e.policy_files import SHIPPED_FILES
from e2e.service_account import as_service_account
from e2e.waiting import until
from tallygate.policy.model import COMPILED_FROM_LABEL
from tallygate.state.kubernetes.cap_ledger import StoredVersion, decode_ledger, encode_ledger
from tallygate.state.ports import LedgerKey, VersionedLedger
from tallygate_certs.certificate_names import parse_names
from tallygate_certs.renewal import issue

_WITHIN = 240.0  # seconds until a policy is active; a cap in the cluster takes the in-flight bound of 40 s and more
_CREATED = 201
_FORBIDDEN = 403
_CONFLICT = 409
_CONFIGURATIONS = ("mutatingwebhookconfiguration,validatingwebhookconfiguration", "--ignore-not-found")
_COMPILED = "validatingadmissionpolicybindings,validatingadmissionpolicies"
_GATE_NAME = "bench-gate"
_CLUSTER_ACCESS = Path(__file__).parents[2] / "deploy" / "kustomize" / "components" / "cluster-access"
_CAPS = {KEPT: "kept", OPEN: "kept-open"}
"""The caps whose ledgers are in the cluster, all of one gate: two gates would watch all pods twice."""


@dataclass(frozen=True)
class BenchCluster:
    """A prepared cluster: all namespaces exist, their pods can be created, and every server has been called."""

    cluster: LocalCluster
    access: Access
    client: Client
    gates: Mapping[Variant, GateProcess]
    _numbers: Iterator[int] = field(default_factory=count)

    def pods(self, number: int) -> list[bytes]:
        """Return manifests of pods with a GPU and new names."""
        return [pod(f"bench-{next(self._numbers)}") for _ in range(number)]

    def pods_without_gpus(self, number: int) -> list[bytes]:
        """Return manifests of pods with new names that no policy concerns."""
        return [pod(f"bench-{next(self._numbers)}", gpus=0) for _ in range(number)]

    @contextmanager
    def apply_backstop(self) -> Iterator[None]:
        """Give the gate with ledgers twenty policies, and the backstop's namespace what is compiled from them.

        Raises:
            ClusterError: if the API server refuses it, or does not evaluate it in time.
        """
        gate, former = self.gates[KEPT], _policies(KEPT, *_create_ledger_caps())
        gate.write_policies(create_files(*_create_ledger_caps(), cap(f"{KEPT.name}-full", KEPT.full, 0)))
        with ExitStack() as ends:
            ends.callback(gate.write_policies, former)
            ends.callback(_delete, self.cluster, _COMPILED, f"--selector={COMPILED_FROM_LABEL}", "--ignore-not-found")
            ends.callback(_delete, self.cluster, "resourcequotas", "--all", f"--namespace={BACKSTOP.namespace}")
            objects = compile_objects(BACKSTOP.namespace)
            _apply(self.cluster, objects)
            until("the compiled rules are evaluated", self._is_refused_by_rules, _WITHIN)
            until("the compiled quota counts", _PodIsStored(self, BACKSTOP), _WITHIN)
            yield

    def _is_refused_by_rules(self) -> bool:
        answer = self.client.create(BACKSTOP.namespace, pod(f"bench-{next(self._numbers)}", gpus=3))
        return answer.status != _CREATED and b"TG107" in answer.body

    def open_reservations(self) -> int:
        """Return the number of open reservations of creations that failed after the gate."""
        _, decoded = self._read_open_ledger()
        return sum(reservation.name.startswith(LEFT) for reservation in decoded.ledger.reservations.values())

    def fill_ledger(self, reservations: int) -> None:
        """Give a ledger this number of new reservations of creations that failed, in place of earlier ones of these.

        Raises:
            ClusterError: if the ledger is not stored.
        """
        path = get_ledgers_path(_GATE_NAME)
        found, decoded = self._read_open_ledger()
        key = LedgerKey(found["spec"]["cap"], OPEN.namespace)
        others = [each for each in decoded.ledger.reservations.items() if not each[1].name.startswith(LEFT)]
        new = [
            (str(uuid4()), create_failed_reservation(f"{LEFT}-{next(self._numbers)}", OPEN.namespace))
            for _ in range(reservations)
        ]
        filled = decoded.ledger.with_reservations([*others, *new])
        version = StoredVersion.parse(decoded.version)
        body = encode_ledger(key, filled, _GATE_NAME, version, datetime.now(UTC)).body
        answer = api(self.cluster.kubeconfig).ask("PUT", f"{path}/{found['metadata']['name']}", json.loads(body))
        if answer.status == _CONFLICT:
            self.fill_ledger(reservations)
        else:
            answer.object()

    def _read_open_ledger(self) -> tuple[dict[str, Any], VersionedLedger]:
        (found,) = (
            each for each in list_ledgers(self.cluster, _GATE_NAME) if each["spec"].get("namespace") == OPEN.namespace
        )
        return found, decode_ledger(json.dumps(found).encode(), LedgerKey(found["spec"]["cap"], OPEN.namespace))

    def begin_cap(self, hard: int = PLENTY) -> None:
        """Replace the cap by a new one with an empty ledger."""
        policy = cap(f"bench-{next(self._numbers)}", CAP.namespace, hard)
        self.gates[CAP].write_policies(_policies(CAP, policy))

    def calls(self) -> dict[Variant, Calls]:
        """Return the API server's present count of its calls to each server."""
        metrics = self.client.read("/metrics")
        return {variant: parse_calls(metrics, variant) for variant in EVERY}

    def clear(self) -> None:
        """Delete all pods, and wait until the quota has counted that, so that no controller is busy with them."""
        for variant in EVERY:
            self.client.delete_pods(variant.namespace)
        until("the quota counts no pod", self._quota_is_free, _WITHIN)

    def read_quota_used(self) -> str:
        """Return the used amount in the status of the quota; "" if it has no status yet."""
        shown = "--output=jsonpath={.status.used.requests\\.nvidia\\.com/gpu}"
        return _run_kubectl(self.cluster, "get", "resourcequota", "bench", f"--namespace={QUOTA.namespace}", shown)

    def _quota_is_free(self) -> bool:
        return self.read_quota_used() == "0"


@contextmanager
def bench_cluster(cluster: LocalCluster) -> Iterator[BenchCluster]:
    """Prepare a cluster, and delete everything after the block.

    Raises:
        ClusterError: if the API server rejects an object, or a server is not called in time.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="tallygate-bench-")))
        api_access = load_access(cluster.kubeconfig, folder)
        client = Client(api_access)
        stack.callback(client.close)
        bench = BenchCluster(cluster, api_access, client, _processes(folder))
        bench.begin_cap()
        stack.callback(_delete, cluster, "namespace", "--wait=false", "--ignore-not-found", _GATE_NAME)
        stack.callback(delete_ledgers, cluster, _GATE_NAME)
        bench.gates[KEPT].write_policies(_policies(KEPT, *_create_ledger_caps()))
        _prepare_ledgers(cluster, folder / KEPT.name / "kubeconfig")
        stack.callback(_delete, cluster, "namespace", "--wait=false", registrations.SERVERS, *_namespaces())
        _apply(cluster, [namespace(name) for name in (registrations.SERVERS, *_namespaces())])
        quotas = [quota("bench", QUOTA.namespace), quota("bench", QUOTA.full, 0)]
        _apply(cluster, [*quotas, *(registrations.service(each) for each in EVERY if each.is_registered)])
        configurations = [each.namespace for each in EVERY if each.is_registered]
        stack.callback(_delete, cluster, *_CONFIGURATIONS, *configurations)
        servers = [*_floor(cluster, folder, stack), *_trivial(folder, stack), *_gates(bench, stack)]
        _apply(cluster, servers)
        for variant in EVERY:
            until(f"pods of {variant.namespace} are created as they should be", _PodIsStored(bench, variant), _WITHIN)
        for variant in REFUSING:
            until(f"pods of {variant.full} are rejected", partial(_is_rejected, bench, variant), _WITHIN)
        until("all ledgers are active", partial(_are_active, cluster), _WITHIN)
        bench.clear()
        yield bench


def _processes(folder: Path) -> dict[Variant, GateProcess]:
    """Return the stopped gates: two standalone ones, and one with ledgers in the cluster.

    All run with the settings that a gate has by default.
    """
    arguments = (
        f"--kubeconfig={folder / KEPT.name / 'kubeconfig'}",
        "--cluster=kubeconfig",
        "--ledgers=kubernetes",
        f"--namespace={_GATE_NAME}",
    )
    ledger_gate = GateProcess(folder / KEPT.name, arguments=arguments, new_process=True)
    return {each: GateProcess(folder / each.name, new_process=True) for each in (RULES, CAP)} | {KEPT: ledger_gate}


@dataclass(frozen=True)
class _PodIsStored:
    """A condition: a pod of a variant is stored, after the expected calls to its server."""

    bench_cluster: BenchCluster
    variant: Variant

    def __call__(self) -> bool:
        before = self.bench_cluster.calls()[self.variant].number
        (body,) = self.bench_cluster.pods(1)
        stored = self.bench_cluster.client.create(self.variant.namespace, body).status == _CREATED
        calls = self.bench_cluster.calls()[self.variant].number - before
        return stored and calls == (len(PHASES.get(self.variant, ("validating",))) if self.variant.is_registered else 0)


def _is_rejected(bench: BenchCluster, variant: Variant) -> bool:
    (body,) = bench.pods(1)
    return bench.client.create(variant.full, body).status == _FORBIDDEN


def _are_active(cluster: LocalCluster) -> bool:
    """Return whether the gate enforces its caps: those that are new count first, and are not what is compared."""
    ledgers = [each for each in list_ledgers(cluster, _GATE_NAME) if each["spec"]["cap"] != "floor"]
    counted = {each["spec"].get("namespace") for each in ledgers if not each["status"].get("initializing")}
    return counted >= {variant.namespace for variant in _CAPS} and len(counted) == len(ledgers)


def _create_ledger_caps() -> list[dict[str, Any]]:
    return [cap(name, variant.namespace, PLENTY) for variant, name in _CAPS.items()]


def _policies(variant: Variant, *caps: dict[str, Any]) -> dict[str, str]:
    """Return the shipped policies, these caps, and a cap that is always full."""
    own = [*caps, cap(f"{variant.name}-full", variant.full, 0)]
    return {**SHIPPED_FILES, "caps.yaml": "\n---\n".join(map(json.dumps, own))}


def _prepare_ledgers(cluster: LocalCluster, kubeconfig: Path) -> None:
    """Create the CRD of ledgers and a ServiceAccount with the permissions of a gate.

    The gate uses a token as in a cluster: the API server caches it for ten seconds, but verifies every certificate.
    """
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": _GATE_NAME, "namespace": _GATE_NAME}}
    rights = (_CLUSTER_ACCESS / "rbac.yaml").read_text().replace("tallygate-system", _GATE_NAME)
    _apply(cluster, [namespace(_GATE_NAME), account])
    define_ledgers(cluster)
    _run_kubectl(
        cluster,
        "apply",
        "--server-side",
        "--filename=-",
        stdin=rights.replace("name: tallygate", f"name: {_GATE_NAME}"),
    )
    as_service_account(cluster, _GATE_NAME, _GATE_NAME, kubeconfig)


def _floor(cluster: LocalCluster, parent: Path, stack: ExitStack) -> list[dict[str, Any]]:
    """Run the constant server; return its configurations: for both HTTP versions, and after a write."""
    folder, written = parent / FLOOR.name, parent / FLOOR.name / "ledger.json"
    names = parse_names([registrations.host(FLOOR), registrations.host(FLOOR_KEPT), registrations.LOOPBACK])
    issue(folder, names, datetime.now(UTC))
    stored = api(cluster.kubeconfig).create(get_ledgers_path(_GATE_NAME), json.loads(ledger(_GATE_NAME)))["metadata"]
    written.write_bytes(ledger(_GATE_NAME, StoredVersion(stored["uid"], stored["resourceVersion"], "", "")))
    port = floor_port(folder, parent / KEPT.name / "kubeconfig", written, stack)
    authority = (folder / "ca.crt").read_bytes()
    return [registrations.constant(variant, port, authority) for variant in (FLOOR, FLOOR_HTTP2, FLOOR_KEPT)]


def _trivial(parent: Path, stack: ExitStack) -> Iterator[dict[str, Any]]:
    """Run the trivial webhooks in separate processes, and yield their configurations."""
    for variant in PHASES:
        folder = parent / variant.name
        issue(folder, parse_names([registrations.host(variant)]), datetime.now(UTC))
        port = flask_port(variant.name, folder, stack)
        yield from registrations.trivial(variant, port, (folder / "ca.crt").read_bytes())


def _gates(bench: BenchCluster, stack: ExitStack) -> Iterator[dict[str, Any]]:
    """Run the gates, and yield their configurations."""
    for first, gate in bench.gates.items():
        variants = (*_CAPS, UNCOUNTED, *CONDITIONS) if first is KEPT else (first,)
        issue(gate.certificates, parse_names([registrations.host(each) for each in variants]), datetime.now(UTC))
        stack.callback(gate.stop)
        gate.start()
        port = int(gate.reached.base.rpartition(":")[2])
        for variant in variants:
            authority = (gate.certificates / "ca.crt").read_bytes()
            if variant in CONDITIONS:
                yield from registrations.never(variant, port, authority, create_conditions())
            else:
                conditions = create_conditions() if variant is UNCOUNTED else None
                yield from registrations.gate(variant, port, authority, conditions)


def _namespaces() -> list[str]:
    return [*(variant.namespace for variant in EVERY), *(variant.full for variant in REFUSING)]


def _apply(cluster: LocalCluster, objects: list[dict[str, Any]]) -> None:
    _run_kubectl(
        cluster,
        *("apply", "--server-side", "--filename=-"),
        stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}),
    )


def _delete(cluster: LocalCluster, *arguments: str) -> None:
    _run_kubectl(cluster, "delete", *arguments)


def _run_kubectl(cluster: LocalCluster, *args: str, stdin: str | None = None) -> str:
    done = cluster.kubectl(*args, stdin=stdin)
    if done.returncode:
        raise ClusterError(f"kubectl {args[0]}: {done.stderr.strip()}")
    return done.stdout
