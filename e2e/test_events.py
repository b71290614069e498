"""What `kubectl describe` tells of a workload whose pods are refused, or let in with a warning."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from e2e.gates.process import GateProcess
from e2e.pods import DONGLE, Pod, pod
from e2e.policy_files import SHIPPED_FILES
from e2e.ports import Cluster, Site
from e2e.registering import register, unregister
from e2e.service_account import as_service_account
from e2e.waiting import until

_WITHIN = 120.0  # seconds
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
_RIGHTS = [
    {
        "apiGroups": [""],
        "resources": ["pods", "namespaces", "nodes", "resourcequotas"],
        "verbs": ["get", "list", "watch"],
    },
    {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "update"]},
]


def _done(cluster: Cluster, *args: str, stdin: str | None = None) -> str:
    done = cluster.kubectl(*args, stdin=stdin)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def telling(site: Site, tmp_path: Path) -> Iterator[GateProcess]:
    """A gate with the rights to follow the cluster, and to create and update events; and no more."""
    cluster, own = site.cluster, f"events-{uuid4().hex[:8]}"
    if not isinstance(site.gate, GateProcess):
        pytest.skip("it is about a gate of its own, beside the one of the site")
    _done(cluster, "create", "namespace", own)
    _done(cluster, "create", "serviceaccount", "gate", f"--namespace={own}")
    meta = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": own}}
    _done(cluster, "create", "--filename=-", stdin=json.dumps({**meta, "rules": _RIGHTS}))
    account = f"--serviceaccount={own}:gate"
    _done(cluster, "create", "clusterrolebinding", own, f"--clusterrole={own}", account)
    kubeconfig = as_service_account(cluster, own, "gate", tmp_path / "kubeconfig")
    arguments = ("--cluster=kubeconfig", f"--kubeconfig={kubeconfig}", "--in-flight-bound=2s")
    gate = GateProcess(tmp_path / "gate", arguments=arguments)
    gate.write_policies(SHIPPED_FILES | {"dongles.yaml": _CAP})
    gate.start()
    try:
        register(cluster, gate)
        yield gate
        unregister(cluster)
    finally:
        gate.stop()
        _done(cluster, "delete", f"clusterrolebinding/{own}", f"clusterrole/{own}")
        _done(cluster, "delete", "namespace", own, "--wait=false")


def _deployment(site: Site, replicas: int) -> dict[str, Any]:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": _asking(site)["spec"]}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}


def _asking(site: Site) -> Pod:
    return pod(site, "web", "1")


def _events(cluster: Cluster, namespace: str) -> dict[str, dict[str, Any]]:
    """The gate's own, by their reason."""
    said = json.loads(_done(cluster, "get", "events", f"--namespace={namespace}", "--output=json"))
    return {each["reason"]: each for each in said["items"] if each["source"].get("component") == "tallygate"}


def _refusals(cluster: Cluster, namespace: str) -> int:
    count: int = _events(cluster, namespace).get("Refused", {}).get("count", 0)
    return count


def test_a_replica_set_says_what_kubectl_apply_could_not(site: Site, namespace: str, telling: GateProcess) -> None:
    cluster, here = site.cluster, f"--namespace={namespace}"
    _done(cluster, "label", "namespace", namespace, "dongles=few")
    until(
        "the cap is open",
        lambda: cluster.kubectl(*_dry(here), stdin=json.dumps(_asking(site))).returncode == 0,
        _WITHIN,
    )
    _done(cluster, "create", here, "--filename=-", stdin=json.dumps(_deployment(site, 4)))
    until("both are told", lambda: _events(cluster, namespace).keys() == {"Refused", "Warned"}, _WITHIN, telling.log)
    found = _events(cluster, namespace)
    owner = json.loads(_done(cluster, "get", "replicasets", here, "--output=json"))["items"][0]["metadata"]
    for each in found.values():
        assert (each["involvedObject"]["kind"], each["involvedObject"]["uid"]) == ("ReplicaSet", owner["uid"])
    assert "above its soft 1 (hard 2) (TG202, cap dongles)" in found["Warned"]["message"]
    assert f"asks 1 {DONGLE}, cap dongles of this namespace holds" in found["Refused"]["message"]
    described = _done(cluster, "describe", "replicaset", owner["name"], here)
    assert "TG202, cap dongles" in described
    assert "forbidden" not in telling.log()


def _dry(here: str) -> tuple[str, ...]:
    return ("create", here, "--dry-run=server", "--filename=-")


def test_a_series_is_one_event_that_counts_and_keeps_its_words_current(
    site: Site, namespace: str, telling: GateProcess
) -> None:
    cluster, here = site.cluster, f"--namespace={namespace}"
    _done(cluster, "label", "namespace", namespace, "dongles=few")
    until(
        "the cap is open",
        lambda: cluster.kubectl(*_dry(here), stdin=json.dumps(_asking(site))).returncode == 0,
        _WITHIN,
    )
    _done(cluster, "create", here, "--filename=-", stdin=json.dumps(_deployment(site, 4)))
    until("the same is said again", lambda: _refusals(cluster, namespace) >= 3, _WITHIN, telling.log)
    said = json.loads(_done(cluster, "get", "events", here, "--output=json"))["items"]
    own = [each for each in said if each["source"].get("component") == "tallygate"]
    assert sorted(each["reason"] for each in own) == ["Refused", "Warned"]


def test_nothing_is_said_of_a_dry_run_nor_of_a_pod_that_nobody_owns(
    site: Site, namespace: str, telling: GateProcess
) -> None:
    cluster, here = site.cluster, f"--namespace={namespace}"
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u-1", "controller": True}
    owned = _asking(site)
    owned["metadata"]["ownerReferences"] = [owner]
    owned["spec"]["containers"][0]["resources"] = {"limits": {DONGLE: "1"}, "requests": {DONGLE: "2"}}
    assert cluster.kubectl(*_dry(here), stdin=json.dumps(owned)).returncode
    del owned["metadata"]["ownerReferences"]
    assert cluster.kubectl("create", here, "--filename=-", stdin=json.dumps(owned)).returncode
    owned["metadata"]["ownerReferences"] = [owner]
    assert cluster.kubectl("create", here, "--filename=-", stdin=json.dumps(owned)).returncode
    until("the last is told", lambda: "Refused" in _events(cluster, namespace), _WITHIN, telling.log)
    assert _events(cluster, namespace)["Refused"]["count"] == 1
