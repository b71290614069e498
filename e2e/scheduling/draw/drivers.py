"""What can be attached where: drivers, nodes that have them, and room for volumes that are still to be made."""

from e2e.scheduling.draw.dice import Dice
from e2e.scheduling.draw.words import DRIVER, MEASURED, ZONE, Json


def drivers(dice: Dice, nodes: list[str]) -> list[Json]:
    """What nodes can attach, and how much room there is for volumes that are still to be made."""
    drawn: list[Json] = [_of("CSIDriver", MEASURED, {"storageCapacity": True, "attachRequired": False})]
    for node in nodes:
        if dice.chance(0.8):
            driver: Json = {"name": DRIVER, "nodeID": node, "topologyKeys": []}
            if dice.chance(0.8):
                driver["allocatable"] = {"count": dice.weighted({0: 1, 1: 3, 2: 3, 8: 2})}
            drawn.append(_of("CSINode", node, {"drivers": [driver]}))
    for zone in dice.some(("a", "b", "c"), 0, 3):
        room: Json = {"storageClassName": "measured", "nodeTopology": {"matchLabels": {ZONE: zone}}}
        room |= {"capacity": dice.pick(("2Gi", "5Gi", "100Gi"))} if dice.chance(0.9) else {}
        room |= {"maximumVolumeSize": dice.pick(("1Gi", "50Gi"))} if dice.chance(0.3) else {}
        capacity = _of("CSIStorageCapacity", f"room-{zone}", None) | room
        capacity["metadata"]["namespace"] = "default"
        drawn.append(capacity)
    return drawn


def _of(kind: str, name: str, spec: Json | None) -> Json:
    bare: Json = {"apiVersion": "storage.k8s.io/v1", "kind": kind, "metadata": {"name": name}}
    return bare if spec is None else bare | {"spec": spec}
