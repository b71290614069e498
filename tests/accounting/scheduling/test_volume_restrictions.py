"""Disks and claims that other pods use, and volume limits of nodes."""

import pytest

from tests.accounting.scheduling.clusters import node, pod
from tests.accounting.scheduling.product_scheduler import decide
from tests.accounting.scheduling.storage_objects import Json, claim, csi_claim, csi_node, pod_with_claims, storage_class

NODE = node("n0")
EXCLUSIVE = [claim(accessModes=["ReadWriteOncePod"]), storage_class()]
IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)


def test_a_used_read_write_once_pod_claim_excludes_every_node() -> None:
    nodes = [NODE, node("n1")]
    assert decide(nodes, [], EXCLUSIVE, pod_with_claims("data")).nodes == {"n0", "n1"}
    taken = decide(nodes, [pod_with_claims("data", name="other", on="n1")], EXCLUSIVE, pod_with_claims("data"))
    assert taken.message.startswith(f"0/2 nodes are available: 2 {IN_USE}. ")


def test_the_user_of_a_read_write_once_pod_claim_may_be_preempted() -> None:
    user = pod_with_claims("data", name="other", on="n1")
    assert decide([NODE, node("n1")], [user], EXCLUSIVE, pod_with_claims("data", priority=9)).nominated == {"n1"}


DISKS = [
    pytest.param({"gcePersistentDisk": {"pdName": "d"}}, {"readOnly": True}, id="Google"),
    pytest.param({"iscsi": {"iqn": "d"}}, {"readOnly": True}, id="iSCSI"),
    pytest.param({"rbd": {"monitors": ["m"], "image": "i"}}, {"readOnly": True}, id="Ceph"),
    pytest.param({"awsElasticBlockStore": {"volumeID": "v"}}, None, id="Amazon"),
]


@pytest.mark.parametrize(("disk", "shared"), DISKS)
def test_a_disk_is_mounted_twice_on_a_node_only_for_reading(disk: Json, shared: Json | None) -> None:
    nodes, volumes = [NODE, node("n1")], [{"name": "d", **disk}]
    assert decide(nodes, [pod("other", on="n0", volumes=volumes)], [], pod(volumes=volumes)).nodes == {"n1"}
    read = [{"name": "d", **{kind: source | (shared or {"readOnly": True}) for kind, source in disk.items()}}]
    nodes_read = decide(nodes, [pod("other", on="n0", volumes=read)], [], pod(volumes=read)).nodes
    assert nodes_read == ({"n1"} if shared is None else {"n0", "n1"})


ATTACHED = {
    "kind": "VolumeAttachment",
    "metadata": {"name": "at"},
    "spec": {"attacher": "csi.io", "nodeName": "n0", "source": {"persistentVolumeName": "pv-a"}},
}
MOUNTED = pod_with_claims("a", name="other", on="n0")


@pytest.mark.parametrize(
    ("limit", "pods", "others", "fits"),
    [
        pytest.param(1, [], [], True, id="the last volume"),
        pytest.param(0, [], [], False, id="one volume too many"),
        pytest.param(1, [MOUNTED], csi_claim("a", "h-a"), False, id="in addition to another pod's volume"),
        pytest.param(1, [MOUNTED], csi_claim("a", "h-b"), True, id="the same volume as another pod's"),
        pytest.param(1, [], [*csi_claim("a", "h-a"), ATTACHED], False, id="in addition to an attached volume"),
        pytest.param(
            2,
            [MOUNTED],
            [*csi_claim("a", "h-a"), ATTACHED],
            True,
            id="a volume that is attached and mounted counts once",
        ),
        pytest.param(
            1, [pod_with_claims("missing", name="other", on="n0")], [], True, id="a missing claim does not count"
        ),
    ],
)
def test_a_node_attaches_volumes_up_to_its_limit(
    limit: int, pods: list[Json], others: list[Json], *, fits: bool
) -> None:
    answer = decide([NODE], pods, [csi_node(limit), *csi_claim("b", "h-b"), *others], pod_with_claims("b"))
    assert bool(answer.nodes) is fits
    assert fits or answer.message.startswith("0/1 nodes are available: 1 node(s) exceed max volume count. ")


def test_a_volume_to_be_provisioned_counts() -> None:
    waiting = [claim(), storage_class()]
    assert decide([NODE], [], [*waiting, csi_node(1)], pod_with_claims("data")).nodes == {"n0"}
    assert not decide([NODE], [], [*waiting, csi_node(0)], pod_with_claims("data")).nodes


@pytest.mark.parametrize(
    ("disk", "driver"),
    [
        ({"awsElasticBlockStore": {"volumeID": "v"}}, "ebs.csi.aws.com"),
        ({"gcePersistentDisk": {"pdName": "d", "readOnly": True}}, "pd.csi.storage.gke.io"),
        ({"azureDisk": {"diskName": "d", "diskURI": "u"}}, "disk.csi.azure.com"),
        ({"cinder": {"volumeID": "v"}}, "cinder.csi.openstack.org"),
        ({"portworxVolume": {"volumeID": "v"}}, "pxd.portworx.com"),
    ],
)
def test_an_in_tree_disk_counts_for_its_csi_driver(disk: Json, driver: str) -> None:
    volumes = [{"name": "d", **disk}]
    assert decide([NODE], [], [csi_node(0)], pod(volumes=volumes)).nodes == {"n0"}
    served = csi_node(0) | {"spec": {"drivers": [{"name": driver, "allocatable": {"count": 0}}]}}
    assert not decide([NODE], [], [served], pod(volumes=volumes)).nodes


def test_a_stored_pod_with_the_ephemeral_claim_of_another_pod_ends_the_attempt() -> None:
    stored = pod("other", on="n0", volumes=[{"name": "v", "ephemeral": {}}])
    others = [csi_node(5), *csi_claim("b", "h-b"), claim("other-v")]
    assert decide([NODE], [stored], others, pod_with_claims("b")).message == (
        'running "NodeVolumeLimits" filter plugin: '
        "PVC default/other-v was not created for pod default/other (pod is not owner)"
    )
