"""The rules in which modelled versions of kube-scheduler differ, each for the versions before and after."""

from pathlib import Path
from typing import Any

import pytest

import tallygate
from tallygate.accounting.kubernetes_versions.switches import FEATURE_GATES, Switch
from tallygate.accounting.kubernetes_versions.version import (
    DEFAULT_VERSION,
    MODELLED_VERSIONS,
    KubernetesVersion,
    parse_minor,
    select_version,
)
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.accounting.scheduling.schedule import ScheduleResult
from tallygate.accounting.scheduling.scoring import score_allocation
from tallygate.accounting.scheduling.victims import NoCandidate, PreemptionCandidate, select_victims_on_node
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

V1_36, V1_37, V1_38 = MODELLED_VERSIONS
NODE = node("n0", cpu="2")
PREVENT = {"preventPodSchedulingIfMissing": True}
DRIVER = {"kind": "CSIDriver", "metadata": {"name": "csi.io"}, "spec": PREVENT}
NOT_INSTALLED = "0/1 nodes are available: 1 csi.io CSI driver is not installed on the node."


@pytest.mark.parametrize(
    ("git_version", "minor"),
    [
        ("v1.38.0-beta.0", 38),
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
    ("minor", "expected"),
    [(None, DEFAULT_VERSION), (20, MODELLED_VERSIONS[0]), (36, V1_36), (37, V1_37), (38, V1_38), (99, V1_38)],
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
    assert answer.message.startswith(message if version.minor >= 37 else "")
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
    assert answer.nodes == (nodes if version.minor >= 37 else {"n1"})


@pytest.mark.parametrize(("version", "nodes"), [(V1_37, ["n0", "n1"]), (V1_38, ["n1"])], ids=str)
def test_an_empty_spread_selector_counts_all_pods_of_the_namespace_from_1_38_on(
    version: KubernetesVersion, nodes: list[str]
) -> None:
    """Spread over two hosts, one of which has a pod: in 1.37 no pod counts, so that each host would do."""
    spread = [{"maxSkew": 1, "topologyKey": "host", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}]
    new = pod("new", labels={"app": "x"})
    new["spec"]["topologySpreadConstraints"] = spread
    answer = decide([node("n0"), node("n1")], [pod("old", on="n0")], [], new, version)
    assert sorted(answer.nodes) == nodes


@pytest.mark.parametrize(("version", "victim"), [(V1_37, "old"), (V1_38, "young")], ids=str)
@pytest.mark.parametrize("labels", [{"app": "old"}, {}], ids=["labels", "no labels"])
def test_a_budget_without_requirements_protects_pods_from_1_38_on(
    version: KubernetesVersion, victim: str, labels: dict[str, str]
) -> None:
    """Evict the pod that no budget covers: both have one priority, and the older one is under a budget for all pods."""
    pods = [
        pod("old", on="n0", requests={"cpu": "1"}, labels=labels, priority=1),
        pod("young", on="n0", requests={"cpu": "1"}, priority=2),
    ]
    pods[1]["metadata"]["namespace"] = "other"
    budget = {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "all", "namespace": "default"},
        "spec": {"selector": {}},
        "status": {"disruptionsAllowed": 0},
    }
    selected, _ = _preempt(pods, [budget], version)
    assert [each.name for each in selected.victims] == [victim]


@pytest.mark.parametrize(("version", "victim"), [(V1_37, "second"), (V1_38, "first")], ids=str)
def test_of_equal_victims_the_one_with_the_higher_uid_is_evicted_from_1_38_on(
    version: KubernetesVersion, victim: str
) -> None:
    """Evict one of two pods of one priority and start time: in 1.37 the first in the scheduler's cache stays."""
    pods = [
        _create_pod("first", startTime="2026-01-01T10:00:00Z"),
        _create_pod("second", startTime="2026-01-01T10:00:00Z"),
    ]
    pods[0]["metadata"]["uid"], pods[1]["metadata"]["uid"] = "b", "a"
    assert [each.name for each in _preempt(pods, [], version)[0].victims] == [victim]


@pytest.mark.parametrize(("version", "nodes"), [(V1_37, ["n0", "n1"]), (V1_38, ["n1"])], ids=str)
def test_requests_at_pod_level_decide_the_score_from_1_38_on(version: KubernetesVersion, nodes: list[str]) -> None:
    """Prefer the node with more free memory after the pod: 1.37 scores the requests of containers alone."""
    new = pod("new")
    new["spec"]["resources"] = {"requests": {"cpu": "1", "memory": "8Gi"}}
    cluster = create_full_cluster(
        [node("n0", cpu="4", memory="9Gi"), node("n1", cpu="4", memory="16Gi")], [], [], version
    )
    scores = score_allocation(IncomingPod.from_pod(decode_pod(new)), cluster, cluster.nodes.get_indices())
    best = scores.max()
    assert [cluster.nodes.get_name(index) for index in range(2) if scores[index] == best] == nodes


def test_each_switch_is_asked_for_by_the_product() -> None:
    """Find the reader of every rule of the table: one without a reader would be listed and change nothing."""
    product = Path(tallygate.__file__).parent
    texts = [path.read_text() for path in product.rglob("*.py")]
    assert [each.name for each in Switch if not any(f".has(Switch.{each.name})" in text for text in texts)] == []


@pytest.mark.parametrize("switch", list(Switch), ids=lambda switch: switch.name)
def test_a_switch_that_a_feature_gate_turns_on_applies_since_the_gate_is_on(switch: Switch) -> None:
    if switch.value.gate:
        assert switch.value.since == next(gate.on_since for gate in FEATURE_GATES if gate.name == switch.value.gate)


def test_no_version_that_has_not_answered_stands_for_an_unknown_one() -> None:
    """Keep the newest released version as the default: a pre-release stands only for itself and for newer ones."""
    assert not DEFAULT_VERSION.is_preliminary
    assert V1_38.is_preliminary


def test_a_node_without_a_needed_victim_is_no_error_from_1_38_on() -> None:
    """Report a node on which the pod would fit without a victim as one of those without victims."""
    nodes, pods = [node("n0", cpu="2")], [_create_pod("old")]
    for version, expected in ((V1_37, True), (V1_38, False)):
        cluster = create_full_cluster(nodes, pods, [], version)
        new = IncomingPod.from_pod(decode_pod(pod("new", requests={"cpu": "1"}, priority=100)))
        found = select_victims_on_node(new, cluster, 0)
        assert isinstance(found, NoCandidate)
        assert found.is_error is expected
        assert found.reasons[0].startswith("expected at least one" if expected else "No preemption victims found")
