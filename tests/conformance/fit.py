"""Fit: what a node lacks for a pod beside the pods on it."""

from typing import Any

from tests.conformance.case import Case, Outcome
from tests.conformance.sums import wrapping_names
from tests.conformance.typed import typed
from webhook.accounting.node_fit import find_shortfalls
from webhook.objects.core import Node, Pod

_ATTRIBUTES = {
    "requested": "requested",
    "used": "used",
    "capacity": "allocatable",
    "never": "unresolvable",
    "reason": "reason",
}
"""The attribute of a shortfall by its name in the recorded answers."""


def compare(case: Case) -> Outcome:
    """Compare the set of insufficient resources with all that is said of each, whatever their order."""
    pods = case["pods"] or []
    found = find_shortfalls(typed(case["pod"], Pod), typed(case["node"], Node), [typed(each, Pod) for each in pods])
    ours = {each.resource: tuple(str(getattr(each, attribute)) for attribute in _ATTRIBUTES.values()) for each in found}
    theirs = {each["resource"]: _answer(each) for each in case["answer"]["insufficient"] or ()}
    wrapping = wrapping_names(case["pod"], case["node"], pods)
    differences = [
        f"{name}: Kubernetes {theirs.get(name)}, tallygate {ours.get(name)}"
        for name in sorted(theirs.keys() | ours.keys())
        if theirs.get(name) != ours.get(name) and name not in wrapping
    ]
    return Outcome(tuple(differences), beyond_int64=bool(wrapping))


def _answer(said: dict[str, Any]) -> tuple[str, ...]:
    return tuple(str(said[field]) for field in _ATTRIBUTES)
