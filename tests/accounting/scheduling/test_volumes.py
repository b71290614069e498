"""What claims, volumes and disks say about where a pod can run, in the scheduler's words."""

import pytest

from tests.accounting.scheduling.clusters import node, pod, pod_of
from tests.accounting.scheduling.deciding import decided, list_unmodelled, whole
from tests.accounting.scheduling.storing import Json, claim, limited, mounting, storage_class, volume
from webhook.accounting.cluster.storage_index import StorageIndex
from webhook.objects.meta import ObjectMeta
from webhook.objects.storage import PersistentVolume, VolumeAttachment

ZONE = "topology.kubernetes.io/zone"
NOT_HELPFUL = (
    "no new claims to deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
)
NODE = node("n0")


NONE = storage_class("none", "kubernetes.io/no-provisioner")


@pytest.mark.parametrize(
    ("others", "said"),
    [
        pytest.param([], 'persistentvolumeclaim "data" not found', id="no such claim"),
        pytest.param(
            [claim(phase="Lost", bound="pv")],
            'persistentvolumeclaim "data" bound to non-existent persistentvolume "pv"',
            id="a claim that lost its volume",
        ),
        pytest.param(
            [claim(meta={"deletionTimestamp": "2026-01-01T00:00:00Z"})],
            'persistentvolumeclaim "data" is being deleted',
            id="a claim that is leaving",
        ),
        pytest.param(
            [claim(), storage_class(mode="Immediate")],
            "pod has unbound immediate PersistentVolumeClaims",
            id="a claim that should have a volume by now",
        ),
        pytest.param([claim()], "pod has unbound immediate PersistentVolumeClaims", id="a claim of no class"),
        pytest.param([claim(bound="gone")], 'persistentvolume "gone" not found', id="a volume that is gone"),
    ],
)
def test_a_pod_is_refused_for_its_claims(others: list[Json], said: str) -> None:
    answer = decided([NODE, node("n1")], [], others, mounting("data"))
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
            [claim("new-scratch"), storage_class()],
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
    own = claim("new-scratch", meta={"ownerReferences": [{"uid": "uid-new", "controller": True}]})
    assert decided([NODE], [], [own, storage_class()], new).nodes == {"n0"}


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
        pytest.param([claim(), storage_class()], "", id="a volume is made"),
        pytest.param([claim(), storage_class(allowedTopologies=ZONED)], UNFOUND, id="a volume is made elsewhere"),
        pytest.param([claim(), storage_class(allowedTopologies=[])], "", id="no topologies are all"),
        pytest.param([claim(), storage_class(allowedTopologies=[{}])], UNFOUND, id="an empty topology is none"),
        pytest.param([claim(bound="pv"), volume()], "", id="a volume without affinity"),
        pytest.param([claim(bound="pv"), volume(hosts=("n0",))], "", id="a volume that is reached"),
        pytest.param([claim(bound="pv"), volume(hosts=("n1",))], UNREACHED, id="a volume that is not reached"),
        pytest.param([claim(storageClassName="none"), NONE], UNFOUND, id="nobody makes any"),
        pytest.param([claim(storageClassName="none"), NONE, volume()], "", id="a volume is free"),
        pytest.param(
            [claim(storageClassName="none"), NONE, volume(hosts=("n1",))], UNFOUND, id="one is free elsewhere"
        ),
        pytest.param([claim("data", "2Gi", storageClassName="none"), NONE, volume()], UNFOUND, id="one is too small"),
        pytest.param([claim(storageClassName="none"), NONE, volume(phase="Bound")], UNFOUND, id="one is not free"),
        pytest.param(
            [claim(storageClassName="none"), NONE, volume(accessModes=["ReadOnlyMany"])],
            UNFOUND,
            id="one of other modes",
        ),
        pytest.param(
            [claim(storageClassName="none"), NONE, volume(volumeMode="Block")],
            UNFOUND,
            id="one that is a block device",
        ),
        pytest.param(
            [claim(storageClassName="none", selector={"matchLabels": {"a": "b"}}), NONE, volume()],
            UNFOUND,
            id="one that the claim does not select",
        ),
        pytest.param(
            [claim(storageClassName="none"), NONE, volume(claimRef={"name": "data", "namespace": "other"})],
            UNFOUND,
            id="one that is meant for another",
        ),
        pytest.param(
            [
                claim(storageClassName="none"),
                NONE,
                volume(phase="Bound", claimRef={"name": "data", "namespace": "default"}),
            ],
            "",
            id="one that is meant for the claim",
        ),
        pytest.param(
            [claim(storageClassName="none"), NONE, volume(meta={"deletionTimestamp": "2026-01-01T00:00:00Z"})],
            UNFOUND,
            id="one that is leaving",
        ),
        pytest.param(
            [claim(meta={"annotations": {"volume.kubernetes.io/selected-node": "n1"}}), storage_class()],
            UNFOUND,
            id="a volume is being made for another node",
        ),
        pytest.param([claim(), storage_class(), TRACKED], FULL, id="nobody has room"),
        pytest.param([claim(), storage_class(), TRACKED, _room("1Gi", {})], "", id="there is just room"),
        pytest.param([claim(), storage_class(), TRACKED, _room("1Gi", None)], FULL, id="room that nobody reaches"),
        pytest.param(
            [claim(), storage_class(), TRACKED, _room("1Gi", {"matchLabels": {"host": "n1"}})],
            FULL,
            id="room that others reach",
        ),
        pytest.param(
            [claim(), storage_class(), TRACKED, _room("9Gi", {}, maximumVolumeSize="1Mi")],
            FULL,
            id="room for small ones only",
        ),
    ],
)
def test_a_node_must_have_or_get_the_volume(others: list[Json], said: str) -> None:
    answer = decided([NODE], [], others, mounting("data"))
    assert answer.message == (f"0/1 nodes are available: 1 {said}. {NOT_HELPFUL}" if said else "")


def _fields(*fields: Json) -> list[Json]:
    """A bound claim, and its volume that is reached by fields of a node."""
    terms = {"required": {"nodeSelectorTerms": [{"matchFields": list(fields)}]}}
    return [claim(bound="pv"), volume(nodeAffinity=terms)]


@pytest.mark.parametrize(
    ("others", "fits"),
    [
        pytest.param(
            _fields({"key": "metadata.name", "operator": "In", "values": ["n1"]}),
            True,
            id="another name is passed over",
        ),
        pytest.param(_fields({"key": "metadata.name", "operator": "Exists"}), False, id="nonsense is not"),
    ],
)
def test_a_volume_is_asked_of_nodes_without_a_name(others: list[Json], *, fits: bool) -> None:
    assert bool(decided([NODE], [], others, mounting("data")).nodes) is fits


def test_a_part_of_the_cluster_that_is_described_by_nonsense_is_nowhere() -> None:
    part = {"matchExpressions": [{"key": "host", "operator": "Near"}]}
    assert (
        FULL in decided([NODE], [], [claim(), storage_class(), TRACKED, _room("9Gi", part)], mounting("data")).message
    )


def test_a_claim_made_with_the_pod_may_have_lost_its_volume() -> None:
    new = pod("new", volumes=[{"name": "scratch", "ephemeral": {}}])
    own = claim("new-scratch", bound="gone", meta={"ownerReferences": [{"uid": "uid-new", "controller": True}]})
    annotated = own | {"metadata": own["metadata"] | {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}}
    assert decided([NODE], [], [annotated], new).message.startswith(
        "0/1 nodes are available: 1 node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s). "
    )


def test_two_claims_do_not_get_the_same_volume() -> None:
    claims = [claim(name, storageClassName="none") for name in ("a", "b")]
    volumes = [volume("pv-1"), volume("pv-2", hosts=("n1",))]
    assert decided([NODE, node("n1")], [], [NONE, *claims, *volumes], mounting("a", "b")).nodes == {"n1"}


def test_the_smaller_claim_leaves_the_larger_volume() -> None:
    claims = [claim("large", "5Gi", storageClassName="none"), claim("small", "1Gi", storageClassName="none")]
    volumes = [volume("pv-1", "9Gi"), volume("pv-2", "2Gi")]
    assert decided([NODE], [], [NONE, *claims, *volumes], mounting("large", "small")).nodes == {"n0"}


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
    others = [claim(bound="pv"), volume(meta={"labels": labels})]
    answer = decided([here], [], others, mounting("data"))
    assert answer.message == (
        "" if fits else f"0/1 nodes are available: 1 node(s) had no available volume zone. {NOT_HELPFUL}"
    )


def test_where_a_volume_built_into_kubernetes_is_reached_is_named_as_unknown() -> None:
    old = volume(awsElasticBlockStore={"volumeID": "v"})
    asked = pod_of(mounting("data"))
    assert list_unmodelled(asked, whole([NODE], [], [claim(bound="pv"), old])) == ()
    (unknown,) = list_unmodelled(asked, whole([NODE], [], [claim(bound="pv"), old, limited(5)]))
    assert unknown.startswith("volumes: where a volume built into Kubernetes is reached")


def test_what_is_removed_is_found_no_more_and_a_volume_moves_with_its_class() -> None:
    storage = StorageIndex()
    first = PersistentVolume(ObjectMeta(name="pv", annotations={"volume.beta.kubernetes.io/storage-class": "a"}))
    storage.put(first)
    assert storage.get_class_volumes("a").keys() == {"pv"}
    storage.put(PersistentVolume(ObjectMeta(name="pv")))
    assert [set(storage.get_class_volumes(name)) for name in ("a", "")] == [set(), {"pv"}]
    storage.put(VolumeAttachment(ObjectMeta(name="at")))
    storage.remove(PersistentVolume(ObjectMeta(name="pv")))
    storage.remove(VolumeAttachment(ObjectMeta(name="at")))
    assert (storage.volumes, list(storage.list_attachments("")), dict(storage.get_class_volumes(""))) == ({}, [], {})
