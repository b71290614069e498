"""The gate with the rights of its own ServiceAccount, and nothing more: it watches, counts, reserves and recounts."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.api import Object, api
from e2e.extra_gates import run_ledger_gate, until_cap_is_active, until_listed
from e2e.gates.process import GateProcess
from e2e.ledgers import define_ledgers, delete_leases, list_ledgers
from e2e.namespaces import label
from e2e.pods import list_stored, pod, submit
from e2e.ports import Cluster, Site
from e2e.service_account import gates_account
from e2e.waiting import until
from tallygate.gate.cap_activation import RECORD_LEASE

_OWN = "tallygate-system"
_LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{_OWN}/leases"
_WITHIN = 240.0  # seconds
_CAP = """\
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: dongles}
spec:
  namespaces: {selector: {matchLabels: {dongles: few}}}
  hard: {example.com/dongle: 2}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the gates of this module and the kubeconfig of their ServiceAccount."""
    return tmp_path_factory.mktemp("rights")


@pytest.fixture(scope="module")
def watching_gate(site: Site, folder: Path) -> Iterator[GateProcess]:
    """Run a gate that watches the cluster as its ServiceAccount with its ledgers there; with a cap of two dongles."""
    cluster = site.cluster
    if not isinstance(site.gate, GateProcess):
        pytest.skip("it is about a gate of its own, beside the one of the site")
    define_ledgers(cluster)
    kubeconfig = gates_account(cluster, folder, "cluster-access")
    delete_leases(cluster, _OWN)
    with run_ledger_gate(site, folder / "gate", {"dongles.yaml": _CAP}, _OWN, kubeconfig) as gate:
        yield gate


def test_caps_hold_settle_and_outlive_a_restart_with_the_rights_of_the_service_account_alone(
    site: Site, namespace: str, watching_gate: GateProcess
) -> None:
    cluster = site.cluster
    label(cluster, namespace, {"dongles": "few"})
    until_cap_is_active(cluster, namespace, pod(site, "probe", "3"))
    until("the first pod is accepted", lambda: submit(site, namespace, "first").is_done, _WITHIN)
    until("so is the second", lambda: submit(site, namespace, "second").is_done, _WITHIN)
    until("both are counted", lambda: "used 2, reserved" in submit(site, namespace, "third").rejection, _WITHIN)
    api(cluster.kubeconfig).delete(f"/api/v1/namespaces/{namespace}/pods/first")
    until("room comes back", lambda: submit(site, namespace, "third").is_done, _WITHIN)
    watching_gate.stop()
    watching_gate.start()
    full = "cap dongles of this namespace exceeded"
    until("it is full as before", lambda: full in submit(site, namespace, "fourth").rejection, _WITHIN)
    assert list_stored(site, namespace) == {"second", "third"}
    assert any(each["spec"]["namespace"] == namespace for each in list_ledgers(cluster, _OWN))
    assert "forbidden" not in watching_gate.log().lower()
    until("it leads", lambda: _leases_check(watching_gate) == {"ready": True, "leader": True}, _WITHIN)
    until_listed(watching_gate)
    devices = ("deviceclasses", "devicetaintrules", "resourceclaims", "resourceslices")
    pools = ("nodepools", "nodeclaims")
    defaults = ("limitranges", "priorityclasses", "runtimeclasses")
    names = {"pods", "namespaces", "nodes", "resourcequotas", *defaults, *devices, *pools}
    assert watching_gate.readiness()["checks"]["watches"].keys() >= names


def test_of_two_replicas_one_keeps_the_ledgers_and_the_other_takes_over_when_it_leaves(
    watching_gate: GateProcess, folder: Path, site: Site
) -> None:
    def leads(gate: GateProcess) -> bool:
        return bool(_leases_check(gate)["leader"])

    until("the first leads", lambda: leads(watching_gate), _WITHIN)
    arguments = ("--cluster=kubeconfig", f"--kubeconfig={folder / 'kubeconfig'}", "--ledgers=kubernetes")
    other = GateProcess(folder / "other", arguments=arguments)
    other.start()
    try:
        until("both have registered themselves", lambda: len(_leases(site.cluster)) == 3, _WITHIN)
        until("the first goes on", lambda: (leads(watching_gate), leads(other)) == (True, False), _WITHIN)
        watching_gate.stop()
        until("the other leads", lambda: leads(other), _WITHIN)
        watching_gate.start()
        until("both are there again", lambda: len(_leases(site.cluster)) == 3, _WITHIN)
        until("the other goes on", lambda: (leads(watching_gate), leads(other)) == (False, True), _WITHIN)
        other.kill()
        until("the first leads again, without a notice", lambda: leads(watching_gate), _WITHIN)
    finally:
        other.stop()


def _leases_check(gate: GateProcess) -> dict[str, Any]:
    found: dict[str, Any] = gate.readiness()["checks"]["leader-election"]
    return found


def _leases(cluster: Cluster) -> list[Object]:
    """Return the leases of the leader and of each replica, without the record of caps."""
    return [each for each in api(cluster.kubeconfig).items(_LEASES) if each["metadata"]["name"] != RECORD_LEASE]
