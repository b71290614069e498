"""When Kubernetes' integers wrap around somewhere in an object, told from its numbers alone."""

from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from tests.conformance.beyond import milli_wraps, number

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


def wrapping_names(*objects: Any) -> frozenset[str]:
    """The names of which all quantities together, in thousandths, do not fit an int64.

    Kubernetes takes thousandths to see whether a quantity is whole, and sums whatever stands in an object.
    """
    sums: defaultdict[str, Fraction] = defaultdict(Fraction)
    for each in objects:
        for name, quantity in _quantities(each):
            exact = number(str(quantity))
            if exact is not None:
                sums[name] += abs(exact)
    return frozenset(name for name, total in sums.items() if milli_wraps(total))


def _quantities(node: Any) -> Iterator[tuple[str, Any]]:
    """Every name and quantity in every resource list of an object."""
    if isinstance(node, list):
        for each in node:
            yield from _quantities(each)
    if not isinstance(node, dict):
        return
    for key, value in node.items():
        if key in _LISTS and isinstance(value, dict):
            yield from ((name, each) for name, each in value.items() if each is not None)
        else:
            yield from _quantities(value)
