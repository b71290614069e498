"""Claims, volumes and disks that decide on nodes, with kube-scheduler's messages."""

import pytest

from tallygate.accounting.cluster.storage_index import StorageIndex
from tallygate.objects.meta import ObjectMeta
from tallygate.objects.storage import PersistentVolume, VolumeAttachment
from tests.accounting.scheduling.clusters import decode_pod, node, pod
from tests.accounting.scheduling.product_scheduler import create_full_cluster, decide, list_unmodelled
from tests.accounting.scheduling.storage_objects import Json, claim, csi_node, pod_with_claims, storage_class, volume

ZONE = "topology.kubernetes.io/zone"
NOT_HELPFUL = "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
NODE = node("n0")


NONE = storage_class("none", "kubernetes.io/no-provisioner")


@pytest.mark.parametrize(
    ("others", "reason"),
    [
        pytest.param([], 'persistentvolumeclaim "data" not found', id="no such claim"),
        pytest.param(
            [claim(phase="Lost", bound="pv")],
            'persistentvolumeclaim "data" bound to non-existent persistentvolume "pv"',
            id="a claim without its volume",
        ),
        pytest.param(
            [claim(meta={"deletionTimestamp": "2026-01-01T00:00:00Z"})],
            'persistentvolumeclaim "data" is being deleted',
            id="a claim that is being deleted",
        ),
        pytest.param(
            [claim(), storage_class(mode="Immediate")],
            "pod has unbound immediate PersistentVolumeClaims",
            id="an unbound claim of immediate binding",
        ),
        pytest.param([claim()], "pod has unbound immediate PersistentVolumeClaims", id="a claim without a class"),
        pytest.param([claim(bound="missing")], 'persistentvolume "missing" not found', id="a missing volume"),
    ],
)
def test_a_claim_excludes_every_node(others: list[Json], reason: str) -> None:
    result = decide([NODE, node("n1")], [], others, pod_with_claims("data"))
    assert result.message == f"0/2 nodes are available: {reason}. not found"
    assert not result.nodes


@pytest.mark.parametrize(
    ("others", "reason"),
    [
        pytest.param(
            [],
            'waiting for ephemeral volume controller to create the persistentvolumeclaim "new-scratch"',
            id="not created yet",
        ),
        pytest.param(
            [claim("new-scratch"), storage_class()],
            "PVC default/new-scratch was not created for pod default/new (pod is not owner)",
            id="of another owner",
        ),
    ],
)
def test_an_ephemeral_claim_must_exist_and_belong_to_the_pod(others: list[Json], reason: str) -> None:
    new = pod("new", volumes=[{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}}])
    assert decide([NODE], [], others, new).message == f"0/1 nodes are available: {reason}. not found"


def test_an_ephemeral_claim_of_the_pod_is_accepted() -> None:
    new = pod("new", volumes=[{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}}])
    own = claim("new-scratch", meta={"ownerReferences": [{"uid": "uid-new", "controller": True}]})
    assert decide([NODE], [], [own, storage_class()], new).nodes == {"n0"}


NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
NODE_CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
NO_SPACE = "node(s) did not have enough free storage"
ZONED = [{"matchLabelExpressions": [{"key": "host", "values": ["n1"]}]}]
TRACKED = [{"kind": "CSIDriver", "metadata": {"name": "csi.io"}, "spec": {"storageCapacity": True}}, csi_node(9)]


def _create_capacity(size: str, topology: Json | None, **more: str) -> Json:
    kind = {"kind": "CSIStorageCapacity", "metadata": {"name": f"room-{size}", "namespace": "default"}}
    return kind | {"storageClassName": "late", "nodeTopology": topology, "capacity": size, **more}


@pytest.mark.parametrize(
    ("others", "reason"),
    [
        pytest.param([claim(), storage_class()], "", id="a volume is provisioned"),
        pytest.param(
            [claim(), storage_class(allowedTopologies=ZONED)], NO_VOLUME, id="a volume is provisioned elsewhere"
        ),
        pytest.param(
            [claim(), storage_class(allowedTopologies=[])], "", id="an empty list of topologies allows every node"
        ),
        pytest.param(
            [claim(), storage_class(allowedTopologies=[{}])], NO_VOLUME, id="an empty topology allows no node"
        ),
        pytest.param([claim(bound="pv"), volume()], "", id="a volume without affinity"),
        pytest.param([claim(bound="pv"), volume(hosts=("n0",))], "", id="a volume that the node can access"),
        pytest.param(
            [claim(bound="pv"), volume(hosts=("n1",))], NODE_CONFLICT, id="a volume that the node cannot access"
        ),
        pytest.param([claim(storageClassName="none"), NONE], NO_VOLUME, id="no provisioner and no volume"),
        pytest.param([claim(storageClassName="none"), NONE, volume()], "", id="an available volume"),
        pytest.param(
            [claim(storageClassName="none"), NONE, volume(hosts=("n1",))], NO_VOLUME, id="a volume available elsewhere"
        ),
        pytest.param(
            [claim("data", "2Gi", storageClassName="none"), NONE, volume()], NO_VOLUME, id="a volume that is too small"
        ),
        pytest.param(
            [claim(storageClassName="none"), NONE, volume(phase="Bound")],
            NO_VOLUME,
            id="a volume that is not available",
        ),
        pytest.param(
            [claim(storageClassName="none"), NONE, volume(accessModes=["ReadOnlyMany"])],
            NO_VOLUME,
            id="a volume of other access modes",
        ),
        pytest.param(
            [claim(storageClassName="none"), NONE, volume(volumeMode="Block")],
            NO_VOLUME,
            id="a volume that is a block device",
        ),
        pytest.param(
            [claim(storageClassName="none", selector={"matchLabels": {"a": "b"}}), NONE, volume()],
            NO_VOLUME,
            id="a volume that the claim does not select",
        ),
        pytest.param(
            [claim(storageClassName="none"), NONE, volume(claimRef={"name": "data", "namespace": "other"})],
            NO_VOLUME,
            id="a volume that refers to another claim",
        ),
        pytest.param(
            [
                claim(storageClassName="none"),
                NONE,
                volume(phase="Bound", claimRef={"name": "data", "namespace": "default"}),
            ],
            "",
            id="a volume that refers to the claim",
        ),
        pytest.param(
            [claim(storageClassName="none"), NONE, volume(meta={"deletionTimestamp": "2026-01-01T00:00:00Z"})],
            NO_VOLUME,
            id="a volume that is being deleted",
        ),
        pytest.param(
            [claim(meta={"annotations": {"volume.kubernetes.io/selected-node": "n1"}}), storage_class()],
            NO_VOLUME,
            id="a volume is being provisioned for another node",
        ),
        pytest.param([claim(), storage_class(), *TRACKED], NO_SPACE, id="no storage capacity"),
        pytest.param(
            [claim(), storage_class(), *TRACKED, _create_capacity("1Gi", {})], "", id="just enough storage capacity"
        ),
        pytest.param(
            [claim(), storage_class(), *TRACKED, _create_capacity("1Gi", None)],
            NO_SPACE,
            id="capacity without a topology",
        ),
        pytest.param(
            [claim(), storage_class(), *TRACKED, _create_capacity("1Gi", {"matchLabels": {"host": "n1"}})],
            NO_SPACE,
            id="capacity that other nodes can access",
        ),
        pytest.param(
            [claim(), storage_class(), *TRACKED, _create_capacity("9Gi", {}, maximumVolumeSize="1Mi")],
            NO_SPACE,
            id="capacity for small volumes only",
        ),
    ],
)
def test_a_node_must_access_or_get_the_volume(others: list[Json], reason: str) -> None:
    result = decide([NODE], [], others, pod_with_claims("data"))
    assert result.message == (f"0/1 nodes are available: 1 {reason}. {NOT_HELPFUL}" if reason else "")


def _create_volume_with_fields(*fields: Json) -> list[Json]:
    """Return a bound claim, and its volume with an affinity to fields of nodes."""
    terms = {"required": {"nodeSelectorTerms": [{"matchFields": list(fields)}]}}
    return [claim(bound="pv"), volume(nodeAffinity=terms)]


@pytest.mark.parametrize(
    ("others", "fits"),
    [
        pytest.param(
            _create_volume_with_fields({"key": "metadata.name", "operator": "In", "values": ["n1"]}),
            True,
            id="another node name is ignored",
        ),
        pytest.param(
            _create_volume_with_fields({"key": "metadata.name", "operator": "Exists"}),
            False,
            id="an invalid field requirement",
        ),
    ],
)
def test_the_affinity_of_a_volume_ignores_node_names(others: list[Json], *, fits: bool) -> None:
    assert bool(decide([NODE], [], others, pod_with_claims("data")).nodes) is fits


def test_an_invalid_topology_of_a_capacity_matches_no_node() -> None:
    topology = {"matchExpressions": [{"key": "host", "operator": "Near"}]}
    assert (
        NO_SPACE
        in decide(
            [NODE], [], [claim(), storage_class(), *TRACKED, _create_capacity("9Gi", topology)], pod_with_claims("data")
        ).message
    )


def test_an_ephemeral_claim_may_be_bound_to_a_missing_volume() -> None:
    new = pod("new", volumes=[{"name": "scratch", "ephemeral": {}}])
    own = claim("new-scratch", bound="missing", meta={"ownerReferences": [{"uid": "uid-new", "controller": True}]})
    annotated = own | {"metadata": own["metadata"] | {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}}
    assert decide([NODE], [], [annotated], new).message.startswith(
        "0/1 nodes are available: 1 node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s). "
    )


def test_two_claims_get_different_volumes() -> None:
    claims = [claim(name, storageClassName="none") for name in ("a", "b")]
    volumes = [volume("pv-1"), volume("pv-2", hosts=("n1",))]
    assert decide([NODE, node("n1")], [], [NONE, *claims, *volumes], pod_with_claims("a", "b")).nodes == {"n1"}


def test_the_smaller_claim_leaves_the_larger_volume() -> None:
    claims = [claim("large", "5Gi", storageClassName="none"), claim("small", "1Gi", storageClassName="none")]
    volumes = [volume("pv-1", "9Gi"), volume("pv-2", "2Gi")]
    assert decide([NODE], [], [NONE, *claims, *volumes], pod_with_claims("large", "small")).nodes == {"n0"}


@pytest.mark.parametrize(
    ("labels", "on", "fits"),
    [
        pytest.param({ZONE: "a"}, {ZONE: "a"}, True, id="the same zone"),
        pytest.param({ZONE: "a__b"}, {ZONE: "b"}, True, id="one of several zones"),
        pytest.param({ZONE: "a"}, {ZONE: "b"}, False, id="another zone"),
        pytest.param({ZONE: "a"}, {}, True, id="a node without zone labels"),
        pytest.param({ZONE: "a"}, {"topology.kubernetes.io/region": "r"}, False, id="a node with a region label only"),
        pytest.param({"failure-domain.beta.kubernetes.io/zone": "a"}, {ZONE: "a"}, True, id="by the deprecated label"),
        pytest.param({ZONE: "a__"}, {ZONE: "b"}, True, id="an invalid list of zones"),
    ],
)
def test_a_volume_keeps_a_pod_in_its_zone(labels: Json, on: Json, *, fits: bool) -> None:
    here = NODE | {"metadata": {"name": "n0", "labels": on}}
    others = [claim(bound="pv"), volume(meta={"labels": labels})]
    result = decide([here], [], others, pod_with_claims("data"))
    assert result.message == (
        "" if fits else f"0/1 nodes are available: 1 node(s) had no available volume zone. {NOT_HELPFUL}"
    )


def test_the_topology_of_an_in_tree_volume_is_unmodelled() -> None:
    old = volume(awsElasticBlockStore={"volumeID": "v"})
    incoming = decode_pod(pod_with_claims("data"))
    assert list_unmodelled(incoming, create_full_cluster([NODE], [], [claim(bound="pv"), old])) == ()
    (unknown,) = list_unmodelled(incoming, create_full_cluster([NODE], [], [claim(bound="pv"), old, csi_node(5)]))
    assert unknown.startswith("volumes: where a volume built into Kubernetes is reached")


def test_a_storage_index_forgets_removed_objects_and_follows_a_volumes_class() -> None:
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
