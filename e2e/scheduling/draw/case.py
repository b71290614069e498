"""A whole case: a cluster and the pod that is asked about, from a seed and a number."""

from dataclasses import dataclass

from e2e.scheduling.draw.dice import Dice
from e2e.scheduling.draw.nodes import nodes
from e2e.scheduling.draw.pods import newcomer, promised, settled
from e2e.scheduling.draw.storage import storage
from e2e.scheduling.draw.words import CROWDED, NAMESPACES, Json, pod_selector

_ABOUT = {
    "resources": 4.0,
    "taints": 2.0,
    "unschedulable": 1.0,
    "affinity": 3.0,
    "ports": 2.5,
    "volumes": 7.0,
    "spread": 6.0,
    "company": 5.0,
    "preemption": 5.0,
    "gates": 0.2,
}
_MOST_SETTLED = 30


@dataclass(frozen=True)
class Drawn:
    """The objects in an order in which they can be made, the pods on nodes, and the pod that is asked about."""

    objects: list[Json]
    nodes: list[Json]
    pods: list[Json]
    pod: Json


def drawn(seed: int, number: int) -> Drawn:
    """The case of this number, whose pod has a name of its own: a binding that fails late is told to whoever has it."""
    case = drawn_about(Dice(f"{seed}/{number}", _about(Dice(f"{seed}/{number}/about"))))
    case.pod["metadata"]["name"] += f"-{number}"
    return case


def drawn_about(dice: Dice) -> Drawn:
    """A case about what the dice are about."""
    home = dice.weighted(dict(zip(NAMESPACES, (6, 1, 1), strict=True)))
    made = nodes(dice)
    names = [each["metadata"]["name"] for each in made]
    stored = storage(dice, home, names)
    liked = dice.some(names, 1, len(names))
    pods = [settled(dice, each, liked, home, stored) for each in range(_crowd(dice, len(names)))]
    if dice.often("preemption", 0.05, 0.2):
        pods = [promised(each) if dice.chance(0.15) else each for each in pods]
    return Drawn([*stored.objects, *_budgets(dice)], made, pods, newcomer(dice, home, stored))


def _about(dice: Dice) -> frozenset[str]:
    """Mostly one feature, often two, sometimes more; nodes that the rarest spread allows are mostly barred."""
    about = {dice.weighted(_ABOUT) for _ in range(dice.weighted({1: 6, 2: 3, 3: 1}))}
    if "spread" in about and dice.chance(0.7):
        about.add(dice.pick(("taints", "unschedulable", "affinity", "preemption")))
    return frozenset(about)


def _crowd(dice: Dice, nodes: int) -> int:
    if not nodes:
        return 0
    a_node = 3 if dice.about & CROWDED else dice.pick((0, 1, 1, 2))
    return min(_MOST_SETTLED, dice.count(a_node // 2, 2 * a_node * nodes))


def _budgets(dice: Dice) -> list[Json]:
    """Budgets as a controller would have counted them, and drawn."""
    if not dice.often("preemption", 0.1, 0.6):
        return []
    return [_budget(dice, number) for number in range(dice.count(1, 3))]


def _budget(dice: Dice, number: int) -> Json:
    spec: Json = {"minAvailable": 1}
    if dice.chance(0.95):
        spec["selector"] = pod_selector(dice)
    counted = {"disruptionsAllowed": dice.weighted({0: 5, 1: 3, 2: 1}), "currentHealthy": 2, "desiredHealthy": 1}
    gone = {"disruptedPods": {f"old{dice.count(0, 9)}": "2026-01-01T10:00:00Z"}} if dice.chance(0.1) else {}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": f"budget{number}", "namespace": dice.pick(tuple(NAMESPACES))},
        "spec": spec,
        "status": {**counted, **gone, "expectedPods": 2, "observedGeneration": 1},
    }
