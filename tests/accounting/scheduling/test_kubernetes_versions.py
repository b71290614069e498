"""The rules in which modelled versions of kube-scheduler differ, each for the versions before and after."""

import pytest

from tallygate.accounting.kubernetes_versions.version import (
    DEFAULT_VERSION,
    MODELLED_VERSIONS,
    KubernetesVersion,
    parse_minor,
    select_version,
)
from tests.accounting.scheduling.clusters import node, pod
from tests.accounting.scheduling.product_scheduler import decide
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


def test_no_version_that_has_not_answered_stands_for_an_unknown_one() -> None:
    """Keep the newest released version as the default: a pre-release stands only for itself and for newer ones."""
    assert not DEFAULT_VERSION.is_preliminary
    assert V1_38.is_preliminary
