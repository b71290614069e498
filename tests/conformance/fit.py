"""Fit: the resources that a node with pods lacks for another pod."""

from typing import Any

from tallygate.accounting.node_fit import find_shortfalls
from tallygate.objects.core import Node, Pod
from tests.conformance.case import Case, Outcome
from tests.conformance.sums import find_wrapping_names
from tests.conformance.typed_objects import decode_object

_ATTRIBUTES = {
    "requested": "requested",
    "used": "used",
    "capacity": "allocatable",
    "never": "unresolvable",
    "reason": "reason",
}
"""The attribute of a shortfall by its name in the recorded answers."""


def compare(case: Case) -> Outcome:
    """Compare the set of insufficient resources and the fields of each, in any order."""
    pods = case["pods"] or []
    found = find_shortfalls(
        decode_object(case["pod"], Pod), decode_object(case["node"], Node), [decode_object(each, Pod) for each in pods]
    )
    ours = {each.resource: tuple(str(getattr(each, attribute)) for attribute in _ATTRIBUTES.values()) for each in found}
    theirs = {each["resource"]: _read_fields(each) for each in case["answer"]["insufficient"] or ()}
    wrapping = find_wrapping_names(case["pod"], case["node"], pods)
    differences = [
        f"{name}: Kubernetes {theirs.get(name)}, tallygate {ours.get(name)}"
        for name in sorted(theirs.keys() | ours.keys())
        if theirs.get(name) != ours.get(name) and name not in wrapping
    ]
    return Outcome(tuple(differences), beyond_int64=bool(wrapping))


def _read_fields(shortfall: dict[str, Any]) -> tuple[str, ...]:
    return tuple(str(shortfall[field]) for field in _ATTRIBUTES)
