"""A gate that registers itself, and the definitions of kinds that come and go meanwhile."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from e2e.api import Object, api
from e2e.extra_gates import require_gate_process
from e2e.gates.process import GateProcess
from e2e.ledgers import define_ledgers, delete_leases, delete_ledgers
from e2e.policy_files import SHIPPED_FILES
from e2e.ports import Cluster, Site
from e2e.registering import CONFIGURATIONS, unregister
from e2e.service import Service
from e2e.service_account import gates_account
from e2e.stress.replicas import Replicas
from e2e.waiting import until
from tallygate.admission.self_registration import (
    BY_GATE,
    FAILURE_POLICY_ANNOTATION,
    REGISTRATION_ANNOTATION,
    URL_ANNOTATION,
    RegistrationState,
)
from tallygate.admission.webhook_configuration import DEFAULT_NAMESPACE
from tests.admission.plain_configurations import create_plain_configurations

_WITHIN = 120.0


def define(group: str, kind: str, version: str, spec: Object, subresources: Object | None = None) -> Object:
    """Return the definition of a kind with one version and this schema of its spec."""
    singular, schema = kind.lower(), {"type": "object", "properties": {"spec": spec}}
    served = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "metadata": {"name": f"{singular}s.{group}"},
        "spec": {
            "group": group,
            "names": {"plural": f"{singular}s", "singular": singular, "kind": kind, "listKind": f"{kind}List"},
            "scope": "Namespaced",
            "versions": [served | {"subresources": subresources or {}}],
        },
    }


@contextmanager
def run_registering_gate(  # noqa: PLR0913  # what an installation chooses
    site: Site,
    folder: Path,
    policies: Mapping[str, str] = SHIPPED_FILES,
    *,
    components: Sequence[str] = ("cluster-access",),
    arguments: Sequence[str] = (),
    failure_policy: str = "Fail",
) -> Iterator[GateProcess]:
    """Run a gate with the rights of these components; yield it when it has registered itself.

    Raises:
        NotHereError: if the gate of the site does not run as a process here.
    """
    require_gate_process(site)
    account = gates_account(site.cluster, folder, *components)
    gate = GateProcess(folder / "gate", arguments=("--cluster=kubeconfig", f"--kubeconfig={account}", *arguments))
    gate.write_policies(policies)
    gate.start()
    try:
        leave_to_gate(site.cluster, gate, failure_policy)
        until("it has registered itself", lambda: _is_registered(gate), _WITHIN, gate.log)
        yield gate
    finally:
        gate.write_policies(SHIPPED_FILES)
        unregister(site.cluster)
        gate.stop()


@contextmanager
def run_registering_gates(
    site: Site, folder: Path, policies: Mapping[str, str], failure_policy: str
) -> Iterator[Replicas]:
    """Run two gates behind one address with ledgers in the cluster, which register themselves with a failure policy.

    Raises:
        NotHereError: if the gate of the site does not run as a process here.
    """
    require_gate_process(site)
    with ExitStack() as ends:
        define_ledgers(site.cluster)
        account = gates_account(site.cluster, folder, "cluster-access")
        ends.callback(delete_leases, site.cluster, DEFAULT_NAMESPACE)
        ends.callback(delete_ledgers, site.cluster, DEFAULT_NAMESPACE)
        watching = ("--cluster=kubeconfig", f"--kubeconfig={account}", "--ledgers=kubernetes")
        gates = Replicas(folder / "gates", 2, (*watching, "--in-flight-bound=2s"), Service)
        gates.write_policies(policies)
        ends.callback(gates.stop)
        gates.start()
        ends.callback(unregister, site.cluster)
        leave_to_gates(site.cluster, gates, failure_policy)
        yield gates


def leave_to_gates(cluster: Cluster, gates: Replicas, failure_policy: str = "Fail") -> None:
    """Leave both webhook configurations to gates behind one address; return when one of them has registered them.

    Raises:
        ClusterError: if it takes too long.
    """
    leave_to_gate(cluster, gates, failure_policy)
    until("one has registered them", lambda: any(map(_is_registered, gates.each)), _WITHIN, gates.log)


def leave_to_gate(cluster: Cluster, gate: GateProcess | Replicas, failure_policy: str = "Fail") -> None:
    """Store both webhook configurations without webhooks, and leave them to a gate that is called by URL.

    Raises:
        ClusterError: if the API server refuses them.
    """
    for each in create_plain_configurations(gate.reached):
        url = gate.reached.base
        annotations = {REGISTRATION_ANNOTATION: BY_GATE, FAILURE_POLICY_ANNOTATION: failure_policy, URL_ANNOTATION: url}
        empty = each | {"metadata": each["metadata"] | {"annotations": annotations}, "webhooks": []}
        api(cluster.kubeconfig).apply(CONFIGURATIONS[each["kind"]], empty)


def read_registration(gate: GateProcess) -> Object:
    """Return the check of the registration in the readiness of a gate."""
    detail: Object = gate.readiness()["checks"]["registration"]
    return detail


def _is_registered(gate: GateProcess) -> bool:
    return bool(read_registration(gate)["state"] == RegistrationState.COMPLETE)
