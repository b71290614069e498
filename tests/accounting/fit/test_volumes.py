"""What claims, volumes and disks say about where a pod can run, in the scheduler's words."""

from typing import Any

import pytest

from tests.accounting.fit.clusters import node, pod, pod_of
from tests.accounting.fit.deciding import decided, whole
from webhook.accounting.cluster.storage import Storage
from webhook.accounting.fit.verdict import verdict
from webhook.objects.meta import ObjectMeta
from webhook.objects.storage import PersistentVolume, VolumeAttachment

Json = dict[str, Any]

ZONE = "topology.kubernetes.io/zone"
LATE = "WaitForFirstConsumer"
NOT_HELPFUL = (
    "no new claims to deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
)
NODE = node("n0")


def _mounting(*claims: str, name: str = "new", **more: Any) -> Json:
    volumes = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims]
    return pod(name, volumes=volumes, **more)


def _claim(name: str = "data", size: str = "1Gi", *, bound: str = "", meta: Json | None = None, **spec: Any) -> Json:
    annotations = {"pv.kubernetes.io/bind-completed": "yes"} if bound else {}
    status = {"phase": spec.pop("phase", "Pending")}
    given = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, "storageClassName": "late"}
    return {
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "annotations": annotations,
            **(meta or {}),
        },
        "spec": given | ({"volumeName": bound} if bound else {}) | spec,
        "status": status,
    }


def _volume(
    name: str = "pv", size: str = "1Gi", *, hosts: tuple[str, ...] = (), meta: Json | None = None, **spec: Any
) -> Json:
    terms = [{"matchExpressions": [{"key": "host", "operator": "In", "values": list(hosts)}]}]
    reach = {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}} if hosts else {}
    phase = spec.pop("phase", "Available")
    given = {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "storageClassName": "none"}
    return {
        "kind": "PersistentVolume",
        "metadata": {"name": name, **(meta or {})},
        "spec": given | reach | spec,
        "status": {"phase": phase},
    }


def _class(name: str = "late", provisioner: str = "csi.io", mode: str = LATE, **more: Any) -> Json:
    return {
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": mode,
        **more,
    }


NONE = _class("none", "kubernetes.io/no-provisioner")


@pytest.mark.parametrize(
    ("others", "said"),
    [
        pytest.param([], 'persistentvolumeclaim "data" not found', id="no such claim"),
        pytest.param(
            [_claim(phase="Lost", bound="pv")],
            'persistentvolumeclaim "data" bound to non-existent persistentvolume "pv"',
            id="a claim that lost its volume",
        ),
        pytest.param(
            [_claim(meta={"deletionTimestamp": "2026-01-01T00:00:00Z"})],
            'persistentvolumeclaim "data" is being deleted',
            id="a claim that is leaving",
        ),
        pytest.param(
            [_claim(), _class(mode="Immediate")],
            "pod has unbound immediate PersistentVolumeClaims",
            id="a claim that should have a volume by now",
        ),
        pytest.param([_claim()], "pod has unbound immediate PersistentVolumeClaims", id="a claim of no class"),
        pytest.param([_claim(bound="gone")], 'persistentvolume "gone" not found', id="a volume that is gone"),
    ],
)
def test_a_pod_is_refused_for_its_claims(others: list[Json], said: str) -> None:
    answer = decided([NODE, node("n1")], [], others, _mounting("data"))
    assert answer.message == f"0/2 nodes are available: {said}. not found"
    assert not answer.nodes


@pytest.mark.parametrize(
    ("others", "said"),
    [
        pytest.param(
            [],
            'waiting for ephemeral volume controller to create the persistentvolumeclaim "new-scratch"',
            id="not there yet",
        ),
        pytest.param(
            [_claim("new-scratch"), _class()],
            "PVC default/new-scratch was not created for pod default/new (pod is not owner)",
            id="another's",
        ),
    ],
)
def test_a_claim_made_with_the_pod_must_be_there_and_its_own(others: list[Json], said: str) -> None:
    new = pod("new", volumes=[{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}}])
    assert decided([NODE], [], others, new).message == f"0/1 nodes are available: {said}. not found"


def test_a_claim_made_with_the_pod_is_as_good_as_any() -> None:
    new = pod("new", volumes=[{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}}])
    own = _claim("new-scratch", meta={"ownerReferences": [{"uid": "uid-new", "controller": True}]})
    assert decided([NODE], [], [own, _class()], new).nodes == {"n0"}


UNFOUND = "node(s) didn't find available persistent volumes to bind"
UNREACHED = "node(s) didn't match PersistentVolume's node affinity"
FULL = "node(s) did not have enough free storage"
ZONED = [{"matchLabelExpressions": [{"key": "host", "values": ["n1"]}]}]
TRACKED = {"kind": "CSIDriver", "metadata": {"name": "csi.io"}, "spec": {"storageCapacity": True}}


def _room(size: str, topology: Json | None, **more: str) -> Json:
    kind = {"kind": "CSIStorageCapacity", "metadata": {"name": f"room-{size}", "namespace": "default"}}
    return kind | {"storageClassName": "late", "nodeTopology": topology, "capacity": size, **more}


@pytest.mark.parametrize(
    ("others", "said"),
    [
        pytest.param([_claim(), _class()], "", id="a volume is made"),
        pytest.param([_claim(), _class(allowedTopologies=ZONED)], UNFOUND, id="a volume is made elsewhere"),
        pytest.param([_claim(), _class(allowedTopologies=[])], "", id="no topologies are all"),
        pytest.param([_claim(), _class(allowedTopologies=[{}])], UNFOUND, id="an empty topology is none"),
        pytest.param([_claim(bound="pv"), _volume()], "", id="a volume without affinity"),
        pytest.param([_claim(bound="pv"), _volume(hosts=("n0",))], "", id="a volume that is reached"),
        pytest.param([_claim(bound="pv"), _volume(hosts=("n1",))], UNREACHED, id="a volume that is not reached"),
        pytest.param([_claim(storageClassName="none"), NONE], UNFOUND, id="nobody makes any"),
        pytest.param([_claim(storageClassName="none"), NONE, _volume()], "", id="a volume is free"),
        pytest.param(
            [_claim(storageClassName="none"), NONE, _volume(hosts=("n1",))], UNFOUND, id="one is free elsewhere"
        ),
        pytest.param([_claim("data", "2Gi", storageClassName="none"), NONE, _volume()], UNFOUND, id="one is too small"),
        pytest.param([_claim(storageClassName="none"), NONE, _volume(phase="Bound")], UNFOUND, id="one is not free"),
        pytest.param(
            [_claim(storageClassName="none"), NONE, _volume(accessModes=["ReadOnlyMany"])],
            UNFOUND,
            id="one of other modes",
        ),
        pytest.param(
            [_claim(storageClassName="none"), NONE, _volume(volumeMode="Block")],
            UNFOUND,
            id="one that is a block device",
        ),
        pytest.param(
            [_claim(storageClassName="none", selector={"matchLabels": {"a": "b"}}), NONE, _volume()],
            UNFOUND,
            id="one that the claim does not select",
        ),
        pytest.param(
            [_claim(storageClassName="none"), NONE, _volume(claimRef={"name": "data", "namespace": "other"})],
            UNFOUND,
            id="one that is meant for another",
        ),
        pytest.param(
            [
                _claim(storageClassName="none"),
                NONE,
                _volume(phase="Bound", claimRef={"name": "data", "namespace": "default"}),
            ],
            "",
            id="one that is meant for the claim",
        ),
        pytest.param(
            [_claim(storageClassName="none"), NONE, _volume(meta={"deletionTimestamp": "2026-01-01T00:00:00Z"})],
            UNFOUND,
            id="one that is leaving",
        ),
        pytest.param(
            [_claim(meta={"annotations": {"volume.kubernetes.io/selected-node": "n1"}}), _class()],
            UNFOUND,
            id="a volume is being made for another node",
        ),
        pytest.param([_claim(), _class(), TRACKED], FULL, id="nobody has room"),
        pytest.param([_claim(), _class(), TRACKED, _room("1Gi", {})], "", id="there is just room"),
        pytest.param([_claim(), _class(), TRACKED, _room("1Gi", None)], FULL, id="room that nobody reaches"),
        pytest.param(
            [_claim(), _class(), TRACKED, _room("1Gi", {"matchLabels": {"host": "n1"}})],
            FULL,
            id="room that others reach",
        ),
        pytest.param(
            [_claim(), _class(), TRACKED, _room("9Gi", {}, maximumVolumeSize="1Mi")],
            FULL,
            id="room for small ones only",
        ),
    ],
)
def test_a_node_must_have_or_get_the_volume(others: list[Json], said: str) -> None:
    answer = decided([NODE], [], others, _mounting("data"))
    assert answer.message == (f"0/1 nodes are available: 1 {said}. {NOT_HELPFUL}" if said else "")


def test_two_claims_do_not_get_the_same_volume() -> None:
    claims = [_claim(name, storageClassName="none") for name in ("a", "b")]
    volumes = [_volume("pv-1"), _volume("pv-2", hosts=("n1",))]
    assert decided([NODE, node("n1")], [], [NONE, *claims, *volumes], _mounting("a", "b")).nodes == {"n1"}


def test_the_smaller_claim_leaves_the_larger_volume() -> None:
    claims = [_claim("large", "5Gi", storageClassName="none"), _claim("small", "1Gi", storageClassName="none")]
    volumes = [_volume("pv-1", "9Gi"), _volume("pv-2", "2Gi")]
    assert decided([NODE], [], [NONE, *claims, *volumes], _mounting("large", "small")).nodes == {"n0"}


@pytest.mark.parametrize(
    ("labels", "on", "fits"),
    [
        pytest.param({ZONE: "a"}, {ZONE: "a"}, True, id="the same zone"),
        pytest.param({ZONE: "a__b"}, {ZONE: "b"}, True, id="one of several zones"),
        pytest.param({ZONE: "a"}, {ZONE: "b"}, False, id="another zone"),
        pytest.param({ZONE: "a"}, {}, True, id="a node that says nothing"),
        pytest.param({ZONE: "a"}, {"topology.kubernetes.io/region": "r"}, False, id="a node that says another thing"),
        pytest.param({"failure-domain.beta.kubernetes.io/zone": "a"}, {ZONE: "a"}, True, id="by its name of old"),
        pytest.param({ZONE: "a__"}, {ZONE: "b"}, True, id="a list that is none"),
    ],
)
def test_a_volume_keeps_a_pod_in_its_zone(labels: Json, on: Json, *, fits: bool) -> None:
    here = NODE | {"metadata": {"name": "n0", "labels": on}}
    others = [_claim(bound="pv"), _volume(meta={"labels": labels})]
    answer = decided([here], [], others, _mounting("data"))
    assert answer.message == (
        "" if fits else f"0/1 nodes are available: 1 node(s) had no available volume zone. {NOT_HELPFUL}"
    )


ALONE = [_claim(accessModes=["ReadWriteOncePod"]), _class()]
IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)


def test_a_claim_for_one_pod_alone_is_taken_everywhere() -> None:
    nodes = [NODE, node("n1")]
    assert decided(nodes, [], ALONE, _mounting("data")).nodes == {"n0", "n1"}
    taken = decided(nodes, [_mounting("data", name="other", on="n1")], ALONE, _mounting("data"))
    assert taken.message.startswith(f"0/2 nodes are available: 2 {IN_USE}. ")


def test_who_has_a_claim_alone_may_be_asked_to_leave() -> None:
    holder = _mounting("data", name="other", on="n1")
    assert decided([NODE, node("n1")], [holder], ALONE, _mounting("data", priority=9)).nominated == {"n1"}


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


def _limited(count: int) -> Json:
    return {
        "kind": "CSINode",
        "metadata": {"name": "n0"},
        "spec": {"drivers": [{"name": "csi.io", "allocatable": {"count": count}}]},
    }


def _csi(name: str, handle: str) -> list[Json]:
    return [_claim(name, bound=f"pv-{name}"), _volume(f"pv-{name}", csi={"driver": "csi.io", "volumeHandle": handle})]


ATTACHED = {
    "kind": "VolumeAttachment",
    "metadata": {"name": "at"},
    "spec": {"attacher": "csi.io", "nodeName": "n0", "source": {"persistentVolumeName": "pv-a"}},
}
MOUNTED = _mounting("a", name="other", on="n0")


@pytest.mark.parametrize(
    ("limit", "pods", "others", "fits"),
    [
        pytest.param(1, [], [], True, id="the last one"),
        pytest.param(0, [], [], False, id="one too many"),
        pytest.param(1, [MOUNTED], _csi("a", "h-a"), False, id="beside another pod's"),
        pytest.param(1, [MOUNTED], _csi("a", "h-b"), True, id="the same volume as another pod's"),
        pytest.param(1, [], [*_csi("a", "h-a"), ATTACHED], False, id="beside one that is attached"),
        pytest.param(
            2, [MOUNTED], [*_csi("a", "h-a"), ATTACHED], True, id="one that is attached and mounted counts once"
        ),
        pytest.param(1, [_mounting("gone", name="other", on="n0")], [], True, id="a claim that is gone does not count"),
    ],
)
def test_a_node_attaches_so_many_volumes(limit: int, pods: list[Json], others: list[Json], *, fits: bool) -> None:
    answer = decided([NODE], pods, [_limited(limit), *_csi("b", "h-b"), *others], _mounting("b"))
    assert bool(answer.nodes) is fits
    assert fits or answer.message.startswith("0/1 nodes are available: 1 node(s) exceed max volume count. ")


def test_a_volume_still_to_be_made_counts_too() -> None:
    late = [_claim(), _class()]
    assert decided([NODE], [], [*late, _limited(1)], _mounting("data")).nodes == {"n0"}
    assert not decided([NODE], [], [*late, _limited(0)], _mounting("data")).nodes


def test_a_disk_built_into_kubernetes_counts_for_the_driver_that_serves_it() -> None:
    volumes = [{"name": "d", "awsElasticBlockStore": {"volumeID": "v"}}]
    assert decided([NODE], [], [_limited(0)], pod(volumes=volumes)).nodes == {"n0"}
    served = _limited(0) | {"spec": {"drivers": [{"name": "ebs.csi.aws.com", "allocatable": {"count": 0}}]}}
    assert not decided([NODE], [], [served], pod(volumes=volumes)).nodes


def test_a_pod_there_with_a_claim_that_was_made_for_another_ends_the_attempt() -> None:
    there = pod("other", on="n0", volumes=[{"name": "v", "ephemeral": {}}])
    others = [_limited(5), *_csi("b", "h-b"), _claim("other-v")]
    assert decided([NODE], [there], others, _mounting("b")).message == (
        'running "NodeVolumeLimits" filter plugin: '
        "PVC default/other-v was not created for pod default/other (pod is not owner)"
    )


def test_where_a_volume_built_into_kubernetes_is_reached_is_named_as_unknown() -> None:
    old = _volume(awsElasticBlockStore={"volumeID": "v"})
    asked = pod_of(_mounting("data"))
    assert verdict(asked, whole([NODE], [], [_claim(bound="pv"), old])).unknown == ()
    (unknown,) = verdict(asked, whole([NODE], [], [_claim(bound="pv"), old, _limited(5)])).unknown
    assert unknown.startswith("volumes: where a volume built into Kubernetes is reached")


def test_what_is_removed_is_found_no_more_and_a_volume_moves_with_its_class() -> None:
    storage = Storage()
    first = PersistentVolume(ObjectMeta(name="pv", annotations={"volume.beta.kubernetes.io/storage-class": "a"}))
    storage.put(first)
    assert storage.of_class("a").keys() == {"pv"}
    storage.put(PersistentVolume(ObjectMeta(name="pv")))
    assert [set(storage.of_class(name)) for name in ("a", "")] == [set(), {"pv"}]
    storage.put(VolumeAttachment(ObjectMeta(name="at")))
    storage.remove(PersistentVolume(ObjectMeta(name="pv")))
    storage.remove(VolumeAttachment(ObjectMeta(name="at")))
    assert (storage.volumes, list(storage.attachments("")), dict(storage.of_class(""))) == ({}, [], {})
