"""A drawn cluster on a plane: made, known to the scheduler, and gone again without a trace."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from e2e.scheduling.api import Api, Object, RefusedError
from e2e.scheduling.cached import Mind
from e2e.scheduling.draw.case import Drawn
from e2e.scheduling.draw.words import NAMESPACES

_CLAIM, _VOLUME = "PersistentVolumeClaim", "PersistentVolume"
_IN_NAMESPACES = ("PodDisruptionBudget", _CLAIM, "CSIStorageCapacity")
_AT_LARGE = (_VOLUME, "StorageClass", "CSINode", "CSIDriver", "VolumeAttachment")
_OBJECTS = ("Namespace", "PriorityClass", "RuntimeClass", *_AT_LARGE, *_IN_NAMESPACES)
_OVER = ("Succeeded", "Failed")
_GRACE = 3600  # seconds that a pod which is being deleted stays


@dataclass(frozen=True, slots=True)
class Scene:
    """What there is, as the API server returned it."""

    nodes: list[Object]
    pods: list[Object]
    objects: list[Object]

    def counted(self) -> set[str]:
        """The UIDs of the pods that the scheduler counts on nodes: they are there, or have room kept for them."""
        return {uid(each) for each in self.pods if not is_over(each)}

    def kept_back(self) -> set[str]:
        """The UIDs of the pods that wait behind a gate."""
        return {uid(each) for each in self.pods if "nodeName" not in each["spec"]}

    def until_known(self, mind: Mind) -> None:
        """Wait until the scheduler knows this and nothing else.

        Raises:
            ClusterError: it does not in time.
        """
        mind.until_knows({each["metadata"]["name"] for each in self.nodes}, self.counted(), self.kept_back())


@contextmanager
def scene(api: Api, mind: Mind, case: Drawn) -> Iterator[Scene]:
    """Make what was drawn; in the block the scheduler knows it, and after the block that there is nothing.

    Raises:
        ClusterError: the scheduler does not come to know it.
    """
    _make(api, case)
    objects = [each for kind in _OBJECTS for each in api.listed(kind)]
    made = Scene(api.listed("Node"), api.listed("Pod"), objects)
    made.until_known(mind)
    try:
        yield made
    except RefusedError:  # whatever else ends the block ends the plane as well
        _clear(api, mind)
        raise
    _clear(api, mind)


def is_over(pod: Object) -> bool:
    """Whether it counts for nothing any more."""
    return pod["status"].get("phase") in _OVER


def uid(it: Object) -> str:
    """Its UID."""
    return str(it["metadata"]["uid"])


def _make(api: Api, case: Drawn) -> None:
    """Volumes come after the claims whose UIDs they have; pods that are over are over before others come.

    A pod that ends takes its ports from the node in the scheduler's mind, also those that another has as well.
    """
    volumes = [each for each in case.objects if each["kind"] == _VOLUME]
    made = api.make_all(each for each in case.objects if each not in volumes)
    claims = {_key(each): each for each in made if isinstance(each, dict) and each["kind"] == _CLAIM}
    for reference in (each["spec"]["claimRef"] for each in volumes if "claimRef" in each["spec"]):
        reference["uid"] = uid(claims[reference["namespace"], reference["name"]])
    over = [each for each in case.pods if is_over(each)]
    for some in (volumes, case.nodes, over, [each for each in case.pods if each not in over]):
        api.make_all(some)
    for each in (*case.objects, *case.pods):
        if "deletionTimestamp" in each["metadata"]:
            api.delete(each, _GRACE)


def _clear(api: Api, mind: Mind) -> None:
    for kind in ("Pod", *_IN_NAMESPACES):
        api.clear(kind, NAMESPACES)
    for kind in (*_AT_LARGE, "Node"):
        api.clear(kind)
    for kept in api.listed(_CLAIM):  # by a finalizer
        kept["metadata"]["finalizers"] = []
        api.put(kept)
    mind.until_knows(set(), set())


def _key(it: Object) -> tuple[str, str]:
    return it["metadata"]["namespace"], it["metadata"]["name"]
