"""A case: a cluster and its incoming pod, from a seed and a number."""

from e2e.scheduling.draw.cluster_parts import DrawnCase
from e2e.scheduling.draw.device_formats import change_formats
from e2e.scheduling.draw.device_slices import add_taint_rules
from e2e.scheduling.draw.devices import add_devices, back_by_plugins
from e2e.scheduling.draw.dice import Dice
from e2e.scheduling.draw.names import CROWDED, NAMESPACES, Json, pod_selector
from e2e.scheduling.draw.nodes import nodes
from e2e.scheduling.draw.pods import draw_incoming_pod, draw_placed_pod, nominate
from e2e.scheduling.draw.storage import storage

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
_MAX_PLACED_PODS = 30


def draw_case(seed: int, number: int) -> DrawnCase:
    """Return the case of a number; the unique name of its pod separates late binding errors from other cases."""
    case = draw_case_from(Dice(f"{seed}/{number}", _draw_features(Dice(f"{seed}/{number}/about"))))
    case.pod["metadata"]["name"] += f"-{number}"
    return case


def draw_device_case(seed: int, number: int) -> DrawnCase:
    """Return the case of a number with devices.

    Half of the cases have nothing else that decides; in a third of all most nodes are feasible.
    """
    about = Dice(f"{seed}/{number}/devices/about")
    features = {"devices"} if about.chance(0.75) else {"devices", *_draw_features(about)} - {"gates"}
    case = draw_case_from(Dice(f"{seed}/{number}/devices/cluster", frozenset(features)))
    case.pod["metadata"]["name"] += f"-{number}"
    choice = frozenset({"choice"} if about.chance(1 / 3) else ())
    case = add_devices(Dice(f"{seed}/{number}/devices", choice), case, f"-{number}")
    case = add_taint_rules(Dice(f"{seed}/{number}/devices/taint-rules"), case)
    change_formats(Dice(f"{seed}/{number}/devices/formats"), case)
    back_by_plugins(Dice(f"{seed}/{number}/devices/plugins"), case)
    return case


def draw_case_from(dice: Dice) -> DrawnCase:
    """Return a case with the features of the dice."""
    home = dice.pick_weighted(dict(zip(NAMESPACES, (6, 1, 1), strict=True)))
    made = nodes(dice)
    names = [each["metadata"]["name"] for each in made]
    stored = storage(dice, home, names)
    liked = dice.sample(names, 1, len(names))
    pods = [draw_placed_pod(dice, each, liked, home, stored) for each in range(_count_pods(dice, len(names)))]
    if dice.often("preemption", 0.05, 0.2):
        pods = [nominate(each) if dice.chance(0.15) else each for each in pods]
    return DrawnCase([*stored.objects, *_budgets(dice)], made, pods, draw_incoming_pod(dice, home, stored))


def _draw_features(dice: Dice) -> frozenset[str]:
    """Return mostly one feature, often two, sometimes more; with spread mostly one that excludes nodes."""
    about = {dice.pick_weighted(_ABOUT) for _ in range(dice.pick_weighted({1: 6, 2: 3, 3: 1}))}
    if "spread" in about and dice.chance(0.7):
        about.add(dice.pick(("taints", "unschedulable", "affinity", "preemption")))
    return frozenset(about)


def _count_pods(dice: Dice, nodes: int) -> int:
    if not nodes:
        return 0
    a_node = 3 if dice.about & CROWDED else dice.pick((0, 1, 1, 2))
    return min(_MAX_PLACED_PODS, dice.count(a_node // 2, 2 * a_node * nodes))


def _budgets(dice: Dice) -> list[Json]:
    """Return disruption budgets with a random status, as a controller would write it."""
    if not dice.often("preemption", 0.1, 0.6):
        return []
    return [_budget(dice, number) for number in range(dice.count(1, 3))]


def _budget(dice: Dice, number: int) -> Json:
    spec: Json = {"minAvailable": 1}
    if dice.chance(0.95):
        spec["selector"] = pod_selector(dice)
    counted = {"disruptionsAllowed": dice.pick_weighted({0: 5, 1: 3, 2: 1}), "currentHealthy": 2, "desiredHealthy": 1}
    disrupted = {"disruptedPods": {f"old{dice.count(0, 9)}": "2026-01-01T10:00:00Z"}} if dice.chance(0.1) else {}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": f"budget{number}", "namespace": dice.pick(tuple(NAMESPACES))},
        "spec": spec,
        "status": {**counted, **disrupted, "expectedPods": 2, "observedGeneration": 1},
    }
