"""Volume drivers, the nodes that have them, attachments, and free capacity for new volumes."""

from e2e.scheduling.draw.dice import Dice
from e2e.scheduling.draw.names import DRIVER, MEASURED, ZONE, Json


def drivers(dice: Dice, nodes: list[str]) -> list[Json]:
    """Return drivers, attach limits of nodes, attachments, and free capacity for new volumes."""
    measuring = _create_object("CSIDriver", MEASURED, {"storageCapacity": True, "attachRequired": False})
    able = [_create_object("CSINode", node, {"drivers": _limits(dice, node)}) for node in nodes if dice.chance(0.8)]
    attached = [_attachment(dice, node) for node in nodes if dice.chance(0.1)]
    return [measuring, *able, *attached, *(_capacity(dice, zone) for zone in dice.sample(("a", "b", "c"), 0, 3))]


def _limits(dice: Dice, node: str) -> list[Json]:
    """Return the attach limits of a node, sometimes with those of the driver that replaces in-tree disks."""
    names = (DRIVER, "ebs.csi.aws.com") if dice.chance(0.15) else (DRIVER,)
    count = dice.pick_weighted({0: 1, 1: 3, 2: 3, 8: 2})
    limit = {"allocatable": {"count": count}} if dice.chance(0.8) else {}
    return [{"name": name, "nodeID": node, "topologyKeys": [], **limit} for name in names]


def _attachment(dice: Dice, node: str) -> Json:
    source = {"persistentVolumeName": dice.pick(("free-0", "pv-bound-0", "pv-single-1"))}
    return _create_object("VolumeAttachment", f"at-{node}", {"attacher": DRIVER, "nodeName": node, "source": source})


def _capacity(dice: Dice, zone: str) -> Json:
    room: Json = {"storageClassName": "measured", "nodeTopology": _place(dice, zone)}
    room |= {"capacity": dice.pick(("2Gi", "5Gi", "100Gi"))} if dice.chance(0.9) else {}
    room |= {"maximumVolumeSize": dice.pick(("1Gi", "50Gi"))} if dice.chance(0.3) else {}
    capacity = _create_object("CSIStorageCapacity", f"room-{zone}", None) | room
    capacity["metadata"]["namespace"] = "default"
    return capacity


def _place(dice: Dice, zone: str) -> Json:
    kind = dice.pick_weighted({"label": 6, "expression": 2, "everywhere": 1})
    if kind == "label":
        return {"matchLabels": {ZONE: zone}}
    expressions = [{"key": ZONE, "operator": dice.pick(("In", "NotIn")), "values": [zone]}]
    return {"matchExpressions": expressions} if kind == "expression" else {}


def _create_object(kind: str, name: str, spec: Json | None) -> Json:
    bare: Json = {"apiVersion": "storage.k8s.io/v1", "kind": kind, "metadata": {"name": name}}
    return bare if spec is None else bare | {"spec": spec}
