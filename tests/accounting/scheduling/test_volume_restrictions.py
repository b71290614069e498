"""Disks and claims that others have already, and how many volumes a node attaches."""

import pytest

from tests.accounting.scheduling.clusters import node, pod
from tests.accounting.scheduling.deciding import decided
from tests.accounting.scheduling.storing import Json, claim, csi, limited, mounting, storage_class

NODE = node("n0")
ALONE = [claim(accessModes=["ReadWriteOncePod"]), storage_class()]
IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)


def test_a_claim_for_one_pod_alone_is_taken_everywhere() -> None:
    nodes = [NODE, node("n1")]
    assert decided(nodes, [], ALONE, mounting("data")).nodes == {"n0", "n1"}
    taken = decided(nodes, [mounting("data", name="other", on="n1")], ALONE, mounting("data"))
    assert taken.message.startswith(f"0/2 nodes are available: 2 {IN_USE}. ")


def test_who_has_a_claim_alone_may_be_asked_to_leave() -> None:
    holder = mounting("data", name="other", on="n1")
    assert decided([NODE, node("n1")], [holder], ALONE, mounting("data", priority=9)).nominated == {"n1"}


DISKS = [
    pytest.param({"gcePersistentDisk": {"pdName": "d"}}, {"readOnly": True}, id="Google"),
    pytest.param({"iscsi": {"iqn": "d"}}, {"readOnly": True}, id="iSCSI"),
    pytest.param({"rbd": {"monitors": ["m"], "image": "i"}}, {"readOnly": True}, id="Ceph"),
    pytest.param({"awsElasticBlockStore": {"volumeID": "v"}}, None, id="Amazon"),
]


@pytest.mark.parametrize(("disk", "shared"), DISKS)
def test_a_disk_is_not_mounted_twice_on_a_node_unless_to_be_read(disk: Json, shared: Json | None) -> None:
    nodes, volumes = [NODE, node("n1")], [{"name": "d", **disk}]
    assert decided(nodes, [pod("other", on="n0", volumes=volumes)], [], pod(volumes=volumes)).nodes == {"n1"}
    read = [{"name": "d", **{kind: source | (shared or {"readOnly": True}) for kind, source in disk.items()}}]
    nodes_read = decided(nodes, [pod("other", on="n0", volumes=read)], [], pod(volumes=read)).nodes
    assert nodes_read == ({"n1"} if shared is None else {"n0", "n1"})


ATTACHED = {
    "kind": "VolumeAttachment",
    "metadata": {"name": "at"},
    "spec": {"attacher": "csi.io", "nodeName": "n0", "source": {"persistentVolumeName": "pv-a"}},
}
MOUNTED = mounting("a", name="other", on="n0")


@pytest.mark.parametrize(
    ("limit", "pods", "others", "fits"),
    [
        pytest.param(1, [], [], True, id="the last one"),
        pytest.param(0, [], [], False, id="one too many"),
        pytest.param(1, [MOUNTED], csi("a", "h-a"), False, id="beside another pod's"),
        pytest.param(1, [MOUNTED], csi("a", "h-b"), True, id="the same volume as another pod's"),
        pytest.param(1, [], [*csi("a", "h-a"), ATTACHED], False, id="beside one that is attached"),
        pytest.param(
            2, [MOUNTED], [*csi("a", "h-a"), ATTACHED], True, id="one that is attached and mounted counts once"
        ),
        pytest.param(1, [mounting("gone", name="other", on="n0")], [], True, id="a claim that is gone does not count"),
    ],
)
def test_a_node_attaches_so_many_volumes(limit: int, pods: list[Json], others: list[Json], *, fits: bool) -> None:
    answer = decided([NODE], pods, [limited(limit), *csi("b", "h-b"), *others], mounting("b"))
    assert bool(answer.nodes) is fits
    assert fits or answer.message.startswith("0/1 nodes are available: 1 node(s) exceed max volume count. ")


def test_a_volume_still_to_be_made_counts_too() -> None:
    late = [claim(), storage_class()]
    assert decided([NODE], [], [*late, limited(1)], mounting("data")).nodes == {"n0"}
    assert not decided([NODE], [], [*late, limited(0)], mounting("data")).nodes


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
def test_a_disk_built_into_kubernetes_counts_for_the_driver_that_serves_it(disk: Json, driver: str) -> None:
    volumes = [{"name": "d", **disk}]
    assert decided([NODE], [], [limited(0)], pod(volumes=volumes)).nodes == {"n0"}
    served = limited(0) | {"spec": {"drivers": [{"name": driver, "allocatable": {"count": 0}}]}}
    assert not decided([NODE], [], [served], pod(volumes=volumes)).nodes


def test_a_pod_there_with_a_claim_that_was_made_for_another_ends_the_attempt() -> None:
    there = pod("other", on="n0", volumes=[{"name": "v", "ephemeral": {}}])
    others = [limited(5), *csi("b", "h-b"), claim("other-v")]
    assert decided([NODE], [there], others, mounting("b")).message == (
        'running "NodeVolumeLimits" filter plugin: '
        "PVC default/other-v was not created for pod default/other (pod is not owner)"
    )
