"""What can be attached where: drivers, nodes that have them, and room for volumes that are still to be made."""

from e2e.scheduling.draw.dice import Dice
from e2e.scheduling.draw.words import DRIVER, MEASURED, ZONE, Json


def drivers(dice: Dice, nodes: list[str]) -> list[Json]:
    """What nodes can attach and have attached, and how much room there is for volumes that are still to be made."""
    measuring = _of("CSIDriver", MEASURED, {"storageCapacity": True, "attachRequired": False})
    able = [_of("CSINode", node, {"drivers": _limits(dice, node)}) for node in nodes if dice.chance(0.8)]
    attached = [_attached(dice, node) for node in nodes if dice.chance(0.1)]
    return [measuring, *able, *attached, *(_room(dice, zone) for zone in dice.some(("a", "b", "c"), 0, 3))]


def _limits(dice: Dice, node: str) -> list[Json]:
    """Also of the driver that disks of another name have been handed over to."""
    names = (DRIVER, "ebs.csi.aws.com") if dice.chance(0.15) else (DRIVER,)
    count = dice.weighted({0: 1, 1: 3, 2: 3, 8: 2})
    limit = {"allocatable": {"count": count}} if dice.chance(0.8) else {}
    return [{"name": name, "nodeID": node, "topologyKeys": [], **limit} for name in names]


def _attached(dice: Dice, node: str) -> Json:
    source = {"persistentVolumeName": dice.pick(("free-0", "pv-bound-0", "pv-single-1"))}
    return _of("VolumeAttachment", f"at-{node}", {"attacher": DRIVER, "nodeName": node, "source": source})


def _room(dice: Dice, zone: str) -> Json:
    room: Json = {"storageClassName": "measured", "nodeTopology": _place(dice, zone)}
    room |= {"capacity": dice.pick(("2Gi", "5Gi", "100Gi"))} if dice.chance(0.9) else {}
    room |= {"maximumVolumeSize": dice.pick(("1Gi", "50Gi"))} if dice.chance(0.3) else {}
    capacity = _of("CSIStorageCapacity", f"room-{zone}", None) | room
    capacity["metadata"]["namespace"] = "default"
    return capacity


def _place(dice: Dice, zone: str) -> Json:
    kind = dice.weighted({"label": 6, "expression": 2, "everywhere": 1})
    if kind == "label":
        return {"matchLabels": {ZONE: zone}}
    expressions = [{"key": ZONE, "operator": dice.pick(("In", "NotIn")), "values": [zone]}]
    return {"matchExpressions": expressions} if kind == "expression" else {}


def _of(kind: str, name: str, spec: Json | None) -> Json:
    bare: Json = {"apiVersion": "storage.k8s.io/v1", "kind": kind, "metadata": {"name": name}}
    return bare if spec is None else bare | {"spec": spec}
