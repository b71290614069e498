"""The names of labels, resources and namespaces in cases, and labels and selectors drawn from them."""

from typing import Any

from e2e.scheduling.draw.dice import Dice

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
RACK = "example.com/rack"
GPU, IP, BANANAS = "nvidia.com/gpu", "example.com/ip", "pod.alpha.kubernetes.io/opaque-int-resource-bananas"
NAMESPACES = {
    "default": {"team": "a", "resource.kubernetes.io/admin-access": "true"},
    "blue": {"team": "b"},
    "green": {"team": "b", "env": "prod"},
}
PRIORITIES = {"low": 10, "mid": 100, "high": 1000, "polite": 1000}
CROWDED = frozenset({"preemption", "spread", "company", "ports"})
"""Features that need many other pods."""
DRIVER, MEASURED = "dyn.example.com", "measured.example.com"
"""Volume drivers; the second reports its free capacity."""
IMAGE = "example.com/none:1"
DELETION_TIMESTAMP = "2026-01-01T12:00:00Z"
"""A deletion timestamp: its object is deleted after its creation, and stays during the grace period."""

_POD_LABELS = {"app": ("web", "web", "db", "cache"), "rev": ("1", "2"), "tier": ("front", "back")}

Json = dict[str, Any]


def pod_labels(dice: Dice) -> Json:
    """Return the labels of a pod; mostly `app`, mostly few."""
    chances = {"app": 0.9, "rev": 0.5, "tier": 0.3}
    return {key: dice.pick(values) for key, values in _POD_LABELS.items() if dice.chance(chances[key])}


def pod_selector(dice: Dice) -> Json:
    """Return a selector of pods, sometimes an empty one."""
    kind = dice.pick_weighted({"labels": 6, "expressions": 3, "both": 1, "all": 0.5})
    selector: Json = {}
    if kind in ("labels", "both"):
        selector["matchLabels"] = {"app": dice.pick(("web", "web", "db"))}
    if kind in ("expressions", "both"):
        selector["matchExpressions"] = [_expression(dice) for _ in range(dice.count(1, 2))]
    return selector


def namespace_selector(dice: Dice) -> Json:
    """Return a selector of namespaces."""
    return dice.pick(
        (
            {},
            {"matchLabels": {"team": "b"}},
            {"matchLabels": {"team": "a"}},
            {"matchExpressions": [{"key": "env", "operator": "DoesNotExist"}]},
            {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["green", "x"]}]},
            {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}]},
        )
    )


def _expression(dice: Dice) -> Json:
    key = dice.pick_weighted({"app": 5, "rev": 3, "tier": 2})
    operator = dice.pick(("In", "In", "NotIn", "Exists", "DoesNotExist"))
    if operator in ("Exists", "DoesNotExist"):
        return {"key": key, "operator": operator}
    return {"key": key, "operator": operator, "values": sorted(set(dice.sample(_POD_LABELS[key], 1, 2)))}
