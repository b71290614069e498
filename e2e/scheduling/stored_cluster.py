"""A drawn cluster on a control plane: created, cached by the scheduler, and deleted completely."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from e2e.scheduling.api import Api, Object, RejectedError
from e2e.scheduling.draw.cluster_parts import DrawnCase
from e2e.scheduling.draw.names import NAMESPACES
from e2e.scheduling.scheduler_dumps import SchedulerDumps

_CLAIM, _VOLUME = "PersistentVolumeClaim", "PersistentVolume"
_DEVICE_CLAIM = "ResourceClaim"
_IN_NAMESPACES = (
    "PodDisruptionBudget",
    "PodGroup",
    _CLAIM,
    "CSIStorageCapacity",
    _DEVICE_CLAIM,
    "ResourceClaimTemplate",
)
_CLUSTER_SCOPED = (
    *(_VOLUME, "StorageClass", "CSINode", "CSIDriver", "VolumeAttachment"),
    *("DeviceClass", "ResourceSlice", "DeviceTaintRule"),
)
_OBJECTS = ("Namespace", "PriorityClass", "RuntimeClass", *_CLUSTER_SCOPED, *_IN_NAMESPACES)
_ENDED = ("Succeeded", "Failed")
_GRACE = 3600  # seconds of grace of a pod with a deletion timestamp


@dataclass(frozen=True, slots=True)
class StoredCluster:
    """The objects of a cluster, as the API server returned them."""

    nodes: list[Object]
    pods: list[Object]
    objects: list[Object]

    def list_counted_uids(self) -> set[str]:
        """Return the UIDs of the pods that the scheduler counts on nodes: placed or nominated."""
        return {uid(each) for each in self.pods if not has_ended(each)}

    def list_gated_uids(self) -> set[str]:
        """Return the UIDs of the gated pods."""
        return {uid(each) for each in self.pods if "nodeName" not in each["spec"]}

    def wait_until_cached(self, dumps: SchedulerDumps) -> None:
        """Wait until the scheduler has cached exactly these objects.

        Raises:
            ClusterError: if its cache differs after the timeout.
        """
        dumps.wait_until_cached(
            {each["metadata"]["name"] for each in self.nodes}, self.list_counted_uids(), self.list_gated_uids()
        )


@contextmanager
def create_cluster(api: Api, dumps: SchedulerDumps, case: DrawnCase) -> Iterator[StoredCluster]:
    """Create a drawn cluster, wait until the scheduler has cached it, and delete it after the block.

    Raises:
        ClusterError: if the scheduler does not cache it in time.
    """
    _make(api, case)
    objects = [each for kind in _OBJECTS for each in api.list_objects(kind)]
    cluster = StoredCluster(api.list_objects("Node"), api.list_objects("Pod"), objects)
    cluster.wait_until_cached(dumps)
    try:
        yield cluster
    except RejectedError:  # any other error ends the control plane too
        _clear(api, dumps)
        raise
    _clear(api, dumps)


def has_ended(pod: Object) -> bool:
    """Return True if a pod has ended."""
    return pod["status"].get("phase") in _ENDED


def uid(it: Object) -> str:
    """Return the UID of an object."""
    return str(it["metadata"]["uid"])


def _make(api: Api, case: DrawnCase) -> None:
    """Create volumes after the claims whose UIDs they have, and ended pods before all others.

    A pod that ends removes its ports from the node in the scheduler's cache, also those that another pod has.
    """
    volumes = [each for each in case.objects if each["kind"] == _VOLUME]
    stored = api.make_all(each for each in case.objects if each not in volumes)
    claims = {_key(each): each for each in stored if isinstance(each, dict) and each["kind"] == _CLAIM}
    for reference in (each["spec"]["claimRef"] for each in volumes if "claimRef" in each["spec"]):
        reference["uid"] = uid(claims[reference["namespace"], reference["name"]])
    over = [each for each in case.pods if has_ended(each)]
    for some in (volumes, case.nodes, over, [each for each in case.pods if each not in over]):
        api.make_all(some)
    for each in (*case.objects, *case.pods):
        if "deletionTimestamp" in each["metadata"]:
            api.delete(each, _GRACE)


def _clear(api: Api, dumps: SchedulerDumps) -> None:
    for kind in ("Pod", *_IN_NAMESPACES):
        api.clear(kind, NAMESPACES)
    for kind in (*_CLUSTER_SCOPED, "Node"):
        api.clear(kind)
    for kind in (_CLAIM, _DEVICE_CLAIM, "PodGroup"):
        for claim in api.list_objects(kind):  # those with a finalizer
            claim["metadata"]["finalizers"] = []
            api.put(claim)
    dumps.wait_until_cached(set(), set())


def _key(it: Object) -> tuple[str, str]:
    return it["metadata"]["namespace"], it["metadata"]["name"]
