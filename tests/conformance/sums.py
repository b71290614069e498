"""Overflow of Kubernetes' integers in an object, computed only from its numbers."""

from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from tests.conformance.integer_overflow import milli_wraps, parse_exactly

_LISTS = frozenset(
    {
        "requests",
        "limits",
        "overhead",
        "capacity",
        "allocatable",
        "allocatedResources",
        "hard",
        "used",
        "max",
        "min",
        "default",
        "defaultRequest",
        "maxLimitRequestRatio",
    }
)


def find_wrapping_names(*objects: Any) -> frozenset[str]:
    """Return the names whose sum of quantities, in thousandths, does not fit an int64.

    Kubernetes computes thousandths to check that a quantity is whole, and sums all quantities of an object.
    """
    sums: defaultdict[str, Fraction] = defaultdict(Fraction)
    for each in objects:
        for name, quantity in _list_quantities(each):
            exact = parse_exactly(str(quantity))
            if exact is not None:
                sums[name] += abs(exact)
    return frozenset(name for name, total in sums.items() if milli_wraps(total))


def _list_quantities(node: Any) -> Iterator[tuple[str, Any]]:
    """Yield every name and quantity in every resource list of an object."""
    if isinstance(node, list):
        for each in node:
            yield from _list_quantities(each)
    if not isinstance(node, dict):
        return
    for key, value in node.items():
        if key in _LISTS and isinstance(value, dict):
            yield from ((name, each) for name, each in value.items() if each is not None)
        else:
            yield from _list_quantities(value)
