"""PodGroups under a cap with `admit: whole`, by an API server, a scheduler and controllers of Kubernetes 1.37."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.api import Answer, Object, api
from e2e.extra_gates import run_ledger_gate
from e2e.gates.process import GateProcess
from e2e.local.cluster import LocalCluster
from e2e.local.nodes import add_nodes, node
from e2e.local.releases import select_release
from e2e.namespaces import new_namespace
from e2e.ports import NotHereError, Site
from e2e.tenant import Tenant, tenant
from e2e.waiting import until

_WITHIN = 120.0  # seconds
_GATES = "GenericWorkload=true,WorkloadWithJob=true,DRAWorkloadResourceClaims=true"
_SERVED = "--runtime-config=scheduling.k8s.io/v1beta1=true"
_GPU = "example.com/gpu"
_SIZE = 8
_POLICIES = f"""\
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {{name: twelve}}
spec:
  namespaces: {{selector: {{matchLabels: {{gpus: twelve}}}}}}
  hard: {{{_GPU}: 12}}
  admit: whole
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Run a control plane with the feature gates, which are off by default, and a node with devices for two groups."""
    if select_release(os.environ).minor < "1.37":
        raise NotHereError("it takes feature gates that Kubernetes has since 1.37")
    with LocalCluster((_SERVED,), _GATES) as cluster:
        add_nodes(cluster, node("one", {_GPU: str(2 * _SIZE)}))
        gate = GateProcess(tmp_path_factory.mktemp("wholes") / "none")
        yield Site(cluster, gate, "one", "example.com/none:1")


@pytest.fixture(scope="module")
def ledger_gate(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GateProcess]:
    """Run a gate with its ledgers in the cluster."""
    folder = tmp_path_factory.mktemp("wholes") / "gate"
    with new_namespace(site.cluster, "gate-") as own, run_ledger_gate(site, folder, {"c.yaml": _POLICIES}, own) as gate:
        yield gate


@pytest.fixture
def dev(site: Site, ledger_gate: GateProcess, tmp_path: Path) -> Iterator[Tenant]:
    """Yield a tenant whose namespace may use twelve devices, and uses none."""
    assert ledger_gate.runs
    with tenant(site.cluster, tmp_path, gpus="twelve") as made:
        until("a pod is accepted", lambda: made.create(_pod("opens", "")).is_done, _WITHIN)
        made.kubectl("delete", "pod", "opens", "--force", "--grace-period=0")
        too_large = _pod("large", "", 13)
        until("the cap is active", lambda: "twelve" in made.create(too_large, dry=True).rejection, _WITHIN)
        yield made


def _pod(name: str, group: str, gpus: int = 1) -> Object:
    container = {"name": "main", "image": "example.com/none:1", "resources": {"limits": {_GPU: str(gpus)}}}
    spec: dict[str, Any] = {"containers": [container]}
    if group:
        spec["schedulingGroup"] = {"podGroupName": group}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def _group(name: str) -> Object:
    spec = {"schedulingPolicy": {"gang": {"minCount": _SIZE}}}
    return {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": {"name": name}, "spec": spec}


def _create_group(site: Site, dev: Tenant, name: str) -> None:
    ours, group = api(site.cluster.kubeconfig), _group(name)
    ours.create(ours.collection(group, dev.namespace), group)


def _create_pods(dev: Tenant, group: str) -> list[Answer]:
    return [dev.create(_pod(f"{group}-{number}", group)) for number in range(_SIZE)]


def _count_placed(site: Site, dev: Tenant, group: str) -> int:
    pods = api(site.cluster.kubeconfig).items(f"/api/v1/namespaces/{dev.namespace}/pods")
    return sum(each["metadata"]["name"].startswith(f"{group}-") and "nodeName" in each["spec"] for each in pods)


def test_of_two_groups_one_starts_and_the_other_is_denied_at_its_first_pod_until_the_first_ends(
    site: Site, dev: Tenant
) -> None:
    for name in ("first", "second"):
        _create_group(site, dev, name)
    assert dev.create(_pod("first-0", "first")).is_done
    refused = dev.create(_pod("second-0", "second")).rejection
    assert f"the PodGroup second as a whole or not at all: {_SIZE} pods like this one" in refused
    assert "free 4" in refused
    assert "TG215" in refused
    assert [dev.create(_pod(f"first-{number}", "first")).is_done for number in range(1, _SIZE)] == [True] * (_SIZE - 1)
    until("the first group is placed", lambda: _count_placed(site, dev, "first") == _SIZE, _WITHIN)
    assert not any(answer.is_done for answer in _create_pods(dev, "second"))
    names = [f"first-{number}" for number in range(_SIZE)]
    dev.kubectl("delete", "pod", *names, "--force", "--grace-period=0")
    until("the second group begins", lambda: dev.create(_pod("second-0", "second")).is_done, _WITHIN)
    assert all(dev.create(_pod(f"second-{number}", "second")).is_done for number in range(1, _SIZE))
    until("the second group is placed", lambda: _count_placed(site, dev, "second") == _SIZE, _WITHIN)


def test_a_replacement_needs_room_for_itself_alone(site: Site, dev: Tenant) -> None:
    _create_group(site, dev, "ring")
    assert all(answer.is_done for answer in _create_pods(dev, "ring"))
    until("the group is placed", lambda: _count_placed(site, dev, "ring") == _SIZE, _WITHIN)
    dev.kubectl("delete", "pod", "ring-0", "--force", "--grace-period=0")
    until("four of five are taken", lambda: dev.create(_pod("others", "", 4)).is_done, _WITHIN)
    until("the replacement is accepted", lambda: dev.create(_pod("ring-8", "ring")).is_done, _WITHIN)


def test_the_pods_of_a_group_with_the_basic_policy_are_decided_one_by_one(site: Site, dev: Tenant) -> None:
    group = _group("plain")
    group["spec"]["schedulingPolicy"] = {"basic": {}}
    ours = api(site.cluster.kubeconfig)
    ours.create(ours.collection(group, dev.namespace), group)
    assert dev.create(_pod("five", "", 5)).is_done
    assert [dev.create(_pod(f"plain-{number}", "plain")).is_done for number in range(_SIZE)] == [True] * 7 + [False]
