"""Pods on nodes, nominated pods, and the incoming pod."""

from e2e.scheduling.draw.affinity import node_wishes
from e2e.scheduling.draw.company import company, spread
from e2e.scheduling.draw.containers import containers
from e2e.scheduling.draw.dice import Dice
from e2e.scheduling.draw.mounts import mounts
from e2e.scheduling.draw.names import DELETION_TIMESTAMP, IMAGE, NAMESPACES, Json, pod_labels
from e2e.scheduling.draw.storage import Storage

NEW = "new"
_STARTS = ("2026-01-01T10:00:00Z", "2026-01-01T11:00:00Z", "2026-01-02T10:00:00Z")


def draw_placed_pod(dice: Dice, number: int, nodes: list[str], home: str, storage: Storage) -> Json:
    """Return a pod on a node; `home` is the namespace that has the claims."""
    pod = _pod(dice, f"old{number}", home if dice.chance(0.7) else dice.pick(tuple(NAMESPACES)))
    spec = pod["spec"] | {"nodeName": dice.pick(nodes)}
    if "preemption" in dice.about and dice.chance(0.8):
        spec["containers"] = [_filling(dice)]
    else:
        spec |= containers(dice, modest=True)
    spec["priorityClassName"] = dice.pick(("low", "low", "low", "mid", "high"))
    if dice.chance(0.6):
        del spec["priorityClassName"]
    wishes = company(dice, is_placed=True)
    spec |= ({"affinity": wishes} if wishes else {}) | _draw_volumes(dice, storage, pod, home, is_placed=True)
    pod["spec"] = spec
    pod["status"] = _status(dice, spec["containers"])
    if dice.chance(0.03):
        pod["metadata"]["deletionTimestamp"] = DELETION_TIMESTAMP
    return pod


def nominate(pod: Json) -> Json:
    """Return a placed pod as a nominated one; a scheduling gate keeps the scheduler from it."""
    spec = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
    spec["schedulingGates"] = [{"name": "example.com/kept-back"}]
    metadata = {key: value for key, value in pod["metadata"].items() if key != "deletionTimestamp"}
    return pod | {"metadata": metadata, "spec": spec, "status": {"nominatedNodeName": pod["spec"]["nodeName"]}}


def draw_incoming_pod(dice: Dice, home: str, storage: Storage) -> Json:
    """Return the incoming pod."""
    pod = _pod(dice, NEW, home)
    wishes = node_wishes(dice)
    affinity = wishes.pop("affinity", {}) | company(dice, is_placed=False)
    spec = (
        pod["spec"] | containers(dice, modest=False) | wishes | _draw_volumes(dice, storage, pod, home, is_placed=False)
    )
    if "preemption" in dice.about and dice.chance(0.8):
        spec["containers"] = [_filling(dice)]
    if affinity:
        spec["affinity"] = affinity
    if constraints := spread(dice):
        spec["topologySpreadConstraints"] = constraints
    if name := _priority(dice):
        spec["priorityClassName"] = name
    if dice.often("gates", 0.005, 1.0):
        spec["schedulingGates"] = [{"name": f"example.com/{name}"} for name in dice.sample(("a", "b"), 1, 2)]
    return pod | {"spec": spec}


def _pod(dice: Dice, name: str, namespace: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": pod_labels(dice)},
        "spec": {"automountServiceAccountToken": False},
    }


def _filling(dice: Dice) -> Json:
    """Return a container that fills a large part of a small node."""
    requests = {"cpu": dice.pick(("500m", "1", "1500m", "2", "3")), "memory": dice.pick(("512Mi", "1Gi", "3Gi"))}
    limits: Json = {}
    if dice.chance(0.2):
        limits = {"nvidia.com/gpu": "1"}
    return {"name": "c0", "image": IMAGE, "resources": {"requests": requests | limits, "limits": limits}}


def _priority(dice: Dice) -> str:
    if "preemption" in dice.about:
        return dice.pick_weighted({"high": 8, "mid": 3, "polite": 1, "low": 1, "": 0.5, "system-node-critical": 0.5})
    return dice.pick_weighted({"": 6, "low": 1, "mid": 1, "high": 2, "polite": 0.5})


def _draw_volumes(dice: Dice, storage: Storage, pod: Json, home: str, *, is_placed: bool) -> Json:
    if pod["metadata"]["namespace"] != home:
        return {}
    volumes = mounts(dice, storage, is_placed=is_placed)
    return {"volumes": volumes} if volumes else {}


def _status(dice: Dice, containers: list[Json]) -> Json:
    """Return a status: most pods run, some are pending, and some have ended."""
    phase = dice.pick_weighted({"Running": 10, "Pending": 4, "Succeeded": 0.3, "Failed": 0.2})
    if phase == "Pending":
        return {"phase": phase}
    resized = {"containerStatuses": [_resize_status(dice, containers[0])]} if dice.often("resources", 0.02, 0.1) else {}
    return {"phase": phase, "startTime": dice.pick(_STARTS), **resized}


def _resize_status(dice: Dice, container: Json) -> Json:
    """Return the status of a container whose resize is pending."""
    has = {"cpu": dice.pick(("50m", "1", "2"))}
    image = {"name": container["name"], "image": IMAGE, "imageID": "", "ready": True, "restartCount": 0}
    return {**image, "allocatedResources": has, "resources": {"requests": has}}
