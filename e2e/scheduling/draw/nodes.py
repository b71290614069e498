"""Nodes: resources, labels and taints."""

from e2e.scheduling.draw.dice import Dice
from e2e.scheduling.draw.names import BANANAS, CROWDED, GPU, HOSTNAME, IP, RACK, REGION, ZONE, Json

_SIZES = {1: 1.0, 2: 2.0, 3: 3.0, 4: 2.0, 6: 2.0, 9: 1.5, 12: 1.0, 20: 0.4, 30: 0.2, 0: 0.15}
_SMALL = {1: 3.0, 2: 4.0, 3: 4.0, 4: 2.0, 6: 1.0, 9: 0.5}
"""Sizes of clusters whose nodes are sometimes all full."""
_ROOMY = {
    "cpu": "32",
    "memory": "256Gi",
    "ephemeral-storage": "1Ti",
    "pods": "110",
    GPU: "16",
    IP: "64",
    BANANAS: "64",
    "hugepages-2Mi": "4Gi",
}
_SCARCE = {
    "cpu": (0.97, ("500m", "1", "1500m", "2", "4", "8", "3999m")),
    "memory": (0.97, ("1Gi", "2Gi", "4Gi", "8Gi", "4000000k", "1.5Gi")),
    "ephemeral-storage": (0.5, ("1Gi", "10Gi", "20Gi")),
    "pods": (0.97, ("0", "1", "2", "3", "5", "110", "110", "110")),
    GPU: (0.6, ("0", "1", "1", "2", "2", "4", "4", "8", "8", "9E")),
    IP: (0.5, ("0", "1", "2", "4")),
    BANANAS: (0.5, ("0", "1", "2", "5", "2500m")),
    "hugepages-2Mi": (0.4, ("0", "64Mi", "1Gi")),
    "hugepages-1Gi": (0.2, ("1Gi", "4Gi")),
}
_TAINTS = ("dedicated", "spot", "gpu", "node.kubernetes.io/not-ready", "example.com/maintenance")
_EFFECTS = {"NoSchedule": 5.0, "NoExecute": 2.0, "PreferNoSchedule": 2.0}


def nodes(dice: Dice) -> list[Json]:
    """Return the nodes of a cluster, sometimes none."""
    size = dice.pick_weighted(_SMALL if dice.about & {*CROWDED, "devices"} else _SIZES)
    entries = [_node(dice, f"n{number}") for number in range(size)]
    if dice.about & {"spread", "company"} and dice.chance(0.5):  # few schedulable nodes are the interesting case
        for node in dice.sample(entries, 0, size):
            node["spec"]["unschedulable"] = True
    return entries


def _node(dice: Dice, name: str) -> Json:
    resources = _draw_resources(dice)
    spec: Json = {"taints": _taints(dice)}
    if dice.often("unschedulable", 0.03, 0.4):
        spec["unschedulable"] = True
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": _labels(dice, name)},
        "spec": spec,
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }


def _draw_resources(dice: Dice) -> Json:
    if "resources" in dice.about:
        return {name: dice.pick(amounts) for name, (chance, amounts) in _SCARCE.items() if dice.chance(chance)}
    if "preemption" in dice.about:
        return _ROOMY | {"cpu": dice.pick(("2", "3", "4")), "memory": dice.pick(("4Gi", "8Gi")), GPU: "2", "pods": "8"}
    return {name: much for name, much in _ROOMY.items() if dice.chance(0.98)}


def _labels(dice: Dice, name: str) -> Json:
    entries = {
        HOSTNAME: (0.97, (name,)),
        ZONE: (0.93, ("a", "b", "c")),
        REGION: (0.5, ("r1", "r2")),
        RACK: (0.5, ("1", "2", "3", "4")),
        "gpu": (0.5, ("a100", "h100", "")),
        "generation": (0.5, ("2", "3", "5", "07", "10", "2.5", "new")),
    }
    return {key: dice.pick(values) for key, (chance, values) in entries.items() if dice.chance(chance)}


def _taints(dice: Dice) -> list[Json]:
    if not dice.often("taints", 0.05, 0.6):
        return []
    return [
        {"key": key, "effect": dice.pick_weighted(_EFFECTS)}
        | ({"value": dice.pick(("x", "y"))} if dice.chance(0.7) else {})
        for key in dice.sample(_TAINTS, 1, 2)
    ]
