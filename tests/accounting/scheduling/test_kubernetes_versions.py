"""The rules in which modelled versions of kube-scheduler differ, each for the versions before and after."""

from typing import Any

import pytest

from tallygate.accounting.kubernetes_versions.version import (
    DEFAULT_VERSION,
    MODELLED_VERSIONS,
    KubernetesVersion,
    parse_minor,
    select_version,
)
from tallygate.accounting.scheduling.schedule import ScheduleResult
from tallygate.accounting.scheduling.victims import PreemptionCandidate
from tests.accounting.scheduling.clusters import decode_pod, node, pod
from tests.accounting.scheduling.product_scheduler import attempt, create_full_cluster, decide
from tests.accounting.scheduling.storage_objects import (
    Json,
    claim,
    csi_claim,
    csi_node,
    pod_with_claims,
    storage_class,
    volume,
)

V1_36, V1_37 = select_version(36), select_version(37)
NODE = node("n0", cpu="2")
PREVENT = {"preventPodSchedulingIfMissing": True}
DRIVER = {"kind": "CSIDriver", "metadata": {"name": "csi.io"}, "spec": PREVENT}
NOT_INSTALLED = "0/1 nodes are available: 1 csi.io CSI driver is not installed on the node."


@pytest.mark.parametrize(
    ("git_version", "minor"),
    [
        ("v1.36.3", 36),
        ("v1.37.2-gke.1200", 37),
        ("v1.35.4+k3s1", 35),
        ("v1.37", 37),
        ("1.37", 37),
        ("", None),
        ("v2.0.0", None),
        ("v1.x", None),
    ],
)
def test_the_minor_version_is_read_from_the_version_that_a_cluster_reports(git_version: str, minor: int | None) -> None:
    assert parse_minor(git_version) == minor


@pytest.mark.parametrize(
    ("minor", "expected"), [(None, DEFAULT_VERSION), (20, MODELLED_VERSIONS[0]), (36, V1_36), (37, V1_37), (99, V1_37)]
)
def test_the_nearest_modelled_version_applies(minor: int | None, expected: KubernetesVersion) -> None:
    assert select_version(minor) == expected


def _create_pod(name: str, **status: Any) -> Json:
    return pod(name, on="n0", requests={"cpu": "1"}, labels={"app": name}) | {"status": status}


def _preempt(
    pods: list[Json], budgets: list[Json], version: KubernetesVersion
) -> tuple[PreemptionCandidate, ScheduleResult]:
    """Return the preemption for a pod of one cpu on a node of two."""
    new = decode_pod(pod("new", requests={"cpu": "1"}, priority=100))
    result = attempt(new, create_full_cluster([NODE], pods, budgets, version))
    assert result.preemption is not None
    assert result.preemption.selected is not None
    return result.preemption.selected, result


@pytest.mark.parametrize(
    ("version", "preemption"),
    [(V1_36, ""), (V1_37, " preemption: found a potential placement for pod on node n0, preempting 1 victims")],
    ids=str,
)
def test_the_message_names_the_node_on_which_a_pod_preempts_from_1_37_on(
    version: KubernetesVersion, preemption: str
) -> None:
    _, result = _preempt([_create_pod("a"), _create_pod("b")], [], version)
    assert result.message == f"0/1 nodes are available: 1 Insufficient cpu.{preemption}"


@pytest.mark.parametrize(("version", "claims"), [(V1_36, "no new claims to deallocate, "), (V1_37, "")], ids=str)
def test_the_message_has_no_note_on_claims_from_1_37_on(version: KubernetesVersion, claims: str) -> None:
    answer = decide([node("n0", cpu="0")], [], [], pod("new", requests={"cpu": "1"}), version)
    preemption = "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    assert answer.message == f"0/1 nodes are available: 1 Insufficient cpu. {claims}{preemption}"


@pytest.mark.parametrize(("version", "victim"), [(V1_36, "first"), (V1_37, "second")], ids=str)
def test_of_pods_that_have_not_started_the_first_counts_as_older_from_1_37_on(
    version: KubernetesVersion, victim: str
) -> None:
    selected, _ = _preempt([_create_pod("first"), _create_pod("second")], [], version)
    assert [each.name for each in selected.victims] == [victim]


def _budget(name: str, apps: list[str], allowed: int) -> Json:
    selector = {"matchExpressions": [{"key": "app", "operator": "In", "values": apps}]}
    return {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": selector},
        "status": {"disruptionsAllowed": allowed},
    }


@pytest.mark.parametrize(("version", "violation_count"), [(V1_36, 1), (V1_37, 0)], ids=str)
def test_a_pod_that_violates_a_budget_counts_under_no_further_one_from_1_37_on(
    version: KubernetesVersion, violation_count: int
) -> None:
    """In 1.36 the older pod, which violates the first budget, also uses up the second one."""
    pods = [
        _create_pod("old", startTime="2026-01-01T10:00:00Z"),
        _create_pod("young", startTime="2026-01-01T11:00:00Z"),
    ]
    budgets = [_budget("first", ["old"], 0), _budget("second", ["old", "young"], 1)]
    selected = _preempt(pods, budgets, version)[0]
    assert ([each.name for each in selected.victims], selected.violation_count) == (["young"], violation_count)


@pytest.mark.parametrize(
    ("others", "message"),
    [
        pytest.param([DRIVER], NOT_INSTALLED, id="no CSINode"),
        pytest.param([DRIVER, csi_node(5)], "", id="an installed driver"),
        pytest.param([], "", id="a name without a CSIDriver"),
        pytest.param([DRIVER | {"spec": {}}], "", id="a CSIDriver that permits it"),
    ],
)
@pytest.mark.parametrize("version", MODELLED_VERSIONS, ids=str)
def test_a_node_needs_the_driver_of_a_volume_from_1_37_on(
    version: KubernetesVersion, others: list[Json], message: str
) -> None:
    answer = decide([NODE], [], [*csi_claim("data", "v"), *others], pod_with_claims("data"), version)
    assert answer.message.startswith(message if version is V1_37 else "")
    assert bool(answer.nodes) is (not message or version is V1_36)


IN_TREE = [claim(bound="pv"), volume(awsElasticBlockStore={"volumeID": "v"})]
EBS = {"kind": "CSIDriver", "metadata": {"name": "ebs.csi.aws.com"}, "spec": PREVENT}


@pytest.mark.parametrize(
    ("others", "fits"),
    [
        pytest.param([], True, id="a node without CSINode has not migrated"),
        pytest.param([csi_node(5)], False, id="a node with another driver"),
    ],
)
@pytest.mark.parametrize(
    "volumes",
    [IN_TREE, [claim(storageClassName="ebs"), storage_class("ebs", "kubernetes.io/aws-ebs")]],
    ids=["volume", "class"],
)
def test_an_in_tree_volume_needs_its_driver_on_nodes_that_have_migrated(
    volumes: list[Json], others: list[Json], *, fits: bool
) -> None:
    answer = decide([NODE], [], [*volumes, EBS, *others], pod_with_claims("data"), V1_37)
    assert bool(answer.nodes) is fits, answer.message


@pytest.mark.parametrize(
    ("selector", "nodes"),
    [
        pytest.param({"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}, {"n0", "n1"}, id="negative"),
        pytest.param({"matchLabels": {"team": "b"}}, {"n1"}, id="positive"),
        pytest.param({}, {"n1"}, id="empty"),
    ],
)
@pytest.mark.parametrize("version", MODELLED_VERSIONS, ids=str)
def test_a_negative_namespace_selector_matches_by_the_labels_of_namespaces_from_1_37_on(
    version: KubernetesVersion, selector: Json, nodes: set[str]
) -> None:
    """Avoid nodes with pods of other namespaces: in 1.36 a negative selector matches every namespace."""
    term = {"labelSelector": {}, "topologyKey": "host", "namespaceSelector": selector}
    anti_affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    old = pod("old", on="n0")
    old = old | {"metadata": old["metadata"] | {"namespace": "blue"}}
    blue = {"kind": "Namespace", "metadata": {"name": "blue", "labels": {"team": "b"}}}
    answer = decide([node("n0"), node("n1")], [old], [blue], pod("new", affinity=anti_affinity), version)
    assert answer.nodes == (nodes if version is V1_37 else {"n1"})
