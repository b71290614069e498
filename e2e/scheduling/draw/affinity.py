"""The node requirements of a pod: tolerations, a node selector, node affinity."""

from e2e.scheduling.draw.dice import Dice
from e2e.scheduling.draw.names import RACK, REGION, ZONE, Json

_VALUES = {ZONE: ("a", "b", "c", "d"), REGION: ("r1", "r2"), RACK: ("1", "2", "3"), "gpu": ("a100", "h100", "")}
_KEYS = (*_VALUES, "generation")


def node_wishes(dice: Dice) -> Json:
    """Return the part of a pod's spec about its node; its affinity has node affinity only."""
    wishes: Json = {}
    if dice.often("affinity", 0.05, 0.3):
        wishes["nodeSelector"] = {key: dice.pick(_VALUES[key]) for key in dice.sample(tuple(_VALUES), 1, 1)}
    if dice.often("affinity", 0.05, 0.7):
        wishes["affinity"] = {"nodeAffinity": _affinity(dice)}
    if dice.often("taints", 0.1, 0.6) or dice.often("unschedulable", 0.05, 0.3):
        wishes["tolerations"] = [_toleration(dice) for _ in range(dice.count(1, 3))]
    return wishes


def _affinity(dice: Dice) -> Json:
    affinity: Json = {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [_term(dice) for _ in range(dice.pick_weighted({1: 5, 2: 3, 3: 1}))]
        }
    }
    if dice.chance(0.2):
        preferred = [{"weight": dice.count(1, 100), "preference": {"matchExpressions": [_expression(dice)]}}]
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = preferred
    return affinity


def _term(dice: Dice) -> Json:
    kind = dice.pick_weighted({"labels": 7, "fields": 2, "both": 1, "empty": 0.3})
    term: Json = {}
    if kind in ("labels", "both"):
        term["matchExpressions"] = [_expression(dice) for _ in range(dice.pick_weighted({1: 4, 2: 1}))]
    if kind in ("fields", "both"):
        operator = dice.pick(("In", "In", "In", "NotIn"))
        term["matchFields"] = [{"key": "metadata.name", "operator": operator, "values": [f"n{dice.count(0, 5)}"]}]
    return term


def _expression(dice: Dice) -> Json:
    key = dice.pick(_KEYS)
    if key == "generation" or dice.chance(0.08):
        bound = dice.pick(("1", "2", "4", "05", "9", "9.5", "x"))
        return {"key": key, "operator": dice.pick(("Gt", "Lt")), "values": [bound]}
    operator = dice.pick(("In", "In", "In", "NotIn", "Exists", "DoesNotExist"))
    if operator in ("Exists", "DoesNotExist"):
        return {"key": key, "operator": operator}
    return {"key": key, "operator": operator, "values": dice.sample(_VALUES[key], 1, 2)}


def _toleration(dice: Dice) -> Json:
    if dice.chance(0.08):
        return {"operator": "Exists"} | dice.pick(({}, {"effect": "NoSchedule"}, {"effect": "NoExecute"}))
    if dice.often("unschedulable", 0.05, 0.5):
        return {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}
    toleration: Json = {"key": dice.pick(("dedicated", "spot", "gpu", "example.com/maintenance"))}
    values = ({"operator": "Exists"}, {"operator": "Equal", "value": "x"}, {"value": "y"}, {"value": ""})
    toleration |= dice.pick(values)
    return toleration | dice.pick(({}, {}, {"effect": "NoSchedule"}, {"effect": "NoExecute"}))
