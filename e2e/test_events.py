"""Events in `kubectl describe` of a workload whose pods are rejected, or accepted with a warning."""

from collections.abc import Iterator
from typing import Any

import pytest

from e2e.api import Answer, Object, api
from e2e.command_output import run_kubectl
from e2e.extra_gates import require_gate_process, run_watching_gate, until_cap_is_active
from e2e.gates.process import GateProcess
from e2e.ledgers import define_ledgers
from e2e.namespaces import label
from e2e.pods import DONGLE, Pod, make_deployment, pod
from e2e.ports import Cluster, Site
from e2e.service_account import gates_account
from e2e.waiting import until

_WITHIN = 240.0  # seconds
_CAP = """\
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: dongles}
spec:
  namespaces: {selector: {matchLabels: {dongles: few}}}
  hard: {example.com/dongle: 2}
  soft: {example.com/dongle: 1}
  workloads: ignore
"""


@pytest.fixture(scope="module")
def event_gate(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GateProcess]:
    """Run a gate with the rights of its ServiceAccount as it is shipped, and no more."""
    require_gate_process(site)
    define_ledgers(site.cluster)
    folder = tmp_path_factory.mktemp("events")
    kubeconfig = gates_account(site.cluster, folder, "cluster-access")
    policies = {"dongles.yaml": _CAP}
    arguments = ("--in-flight-bound=2s",)
    with run_watching_gate(site, folder / "gate", policies, arguments=arguments, kubeconfig=kubeconfig) as gate:
        yield gate


def _deployment(site: Site, replicas: int) -> dict[str, Any]:
    return make_deployment("web", replicas, _asking(site)["spec"])


def _asking(site: Site, dongles: str = "1") -> Pod:
    return pod(site, "web", dongles)


def _events(cluster: Cluster, namespace: str) -> dict[str, dict[str, Any]]:
    """Return the gate's own events, by their reason."""
    return {each["reason"]: each for each in _own(cluster, namespace)}


def _own(cluster: Cluster, namespace: str) -> list[Object]:
    listed = api(cluster.kubeconfig).items(f"/api/v1/namespaces/{namespace}/events")
    return [each for each in listed if each["source"].get("component") == "tallygate"]


def _refusals(cluster: Cluster, namespace: str) -> int:
    count: int = _events(cluster, namespace).get("Rejected", {}).get("count", 0)
    return count


def test_a_replica_set_gets_events_that_kubectl_apply_could_not_show(
    site: Site, namespace: str, event_gate: GateProcess
) -> None:
    cluster = site.cluster
    label(cluster, namespace, {"dongles": "few"})
    until_cap_is_active(cluster, namespace, _asking(site, "3"))
    until("a pod is accepted", lambda: _ask_dry(cluster, namespace, _asking(site)).is_done, _WITHIN)
    api(cluster.kubeconfig).create(f"/apis/apps/v1/namespaces/{namespace}/deployments", _deployment(site, 4))
    until(
        "both events are written",
        lambda: _events(cluster, namespace).keys() == {"Rejected", "Warned"},
        _WITHIN,
        event_gate.log,
    )
    found = _events(cluster, namespace)
    (replica_set,) = api(cluster.kubeconfig).items(f"/apis/apps/v1/namespaces/{namespace}/replicasets")
    owner = replica_set["metadata"]
    for each in found.values():
        assert (each["involvedObject"]["kind"], each["involvedObject"]["uid"]) == ("ReplicaSet", owner["uid"])
    assert f"charged 2 {DONGLE}, soft 1, hard 2 (TG202, cap dongles)" in found["Warned"]["message"]
    assert f"cap dongles of this namespace exceeded: requested 1 {DONGLE}, used" in found["Rejected"]["message"]
    described = run_kubectl(cluster, "describe", "replicaset", owner["name"], f"--namespace={namespace}")
    assert "TG202, cap dongles" in described
    assert "forbidden" not in event_gate.log()


def _ask_dry(cluster: Cluster, namespace: str, made: Pod) -> Answer:
    """Return the answer to its creation, as a dry run."""
    return api(cluster.kubeconfig).ask("POST", f"/api/v1/namespaces/{namespace}/pods", made, query={"dryRun": "All"})


def test_a_series_is_one_event_with_a_count_and_the_latest_message(
    site: Site, namespace: str, event_gate: GateProcess
) -> None:
    cluster = site.cluster
    label(cluster, namespace, {"dongles": "few"})
    until_cap_is_active(cluster, namespace, _asking(site, "3"))
    until("a pod is accepted", lambda: _ask_dry(cluster, namespace, _asking(site)).is_done, _WITHIN)
    api(cluster.kubeconfig).create(f"/apis/apps/v1/namespaces/{namespace}/deployments", _deployment(site, 4))
    until("the same event is counted again", lambda: _refusals(cluster, namespace) >= 3, _WITHIN, event_gate.log)
    assert sorted(each["reason"] for each in _own(cluster, namespace)) == ["Rejected", "Warned"]


def test_no_event_is_written_for_a_dry_run_or_a_pod_without_owner(
    site: Site, namespace: str, event_gate: GateProcess
) -> None:
    cluster, ours, pods = site.cluster, api(site.cluster.kubeconfig), f"/api/v1/namespaces/{namespace}/pods"
    template = {"metadata": {"labels": {"app": "web"}}, "spec": _asking(site)["spec"]}
    spec = {"replicas": 0, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    made = ours.create(
        f"/apis/apps/v1/namespaces/{namespace}/replicasets",
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"}, "spec": spec},
    )
    uid = made["metadata"]["uid"]
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": uid, "controller": True}
    owned = _asking(site)
    owned["metadata"]["ownerReferences"] = [owner]
    owned["spec"]["containers"][0]["resources"] = {"limits": {DONGLE: "1"}, "requests": {DONGLE: "2"}}
    assert not _ask_dry(cluster, namespace, owned).is_done
    del owned["metadata"]["ownerReferences"]
    assert not ours.ask("POST", pods, owned).is_done
    owned["metadata"]["ownerReferences"] = [owner]
    assert not ours.ask("POST", pods, owned).is_done
    until("the last event is written", lambda: "Rejected" in _events(cluster, namespace), _WITHIN, event_gate.log)
    assert _events(cluster, namespace)["Rejected"]["count"] == 1
