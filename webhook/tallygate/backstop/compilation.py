"""All objects that are compiled from policies, and what differs from them in a cluster.

The comparison leaves out what an API server fills in: empty selectors and the defaults of
pkg/apis/admissionregistration/v1/defaults.go in Kubernetes. Amounts are compared as numbers. Annotations and foreign
labels do not count.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, NamedTuple

from tallygate.accounting.quantity import Quantity
from tallygate.accounting.quantity_parser import QuantityError
from tallygate.backstop.admission_policies import create_admission_policies
from tallygate.backstop.compiled_objects import MANAGED_BY_LABEL, POLICY_LABEL, CompiledObject
from tallygate.backstop.gaps import Gap
from tallygate.backstop.resource_quotas import ObservedCluster, create_resource_quotas
from tallygate.policy.model import COMPILED_FROM_LABEL, PolicySet

_LABELS: Final = (MANAGED_BY_LABEL, COMPILED_FROM_LABEL, POLICY_LABEL)
_DEFAULTS: Final[Mapping[str, object]] = {"failurePolicy": "Fail", "matchPolicy": "Equivalent", "scope": "*"}
"""The values that an API server fills in, by field; those of other fields are empty."""
_EMPTY: Final[tuple[object, ...]] = (None, {}, [])


class Compilation(NamedTuple):
    """The compiled objects in the order in which they are printed, and the gaps, ordered by policy and subject."""

    objects: Sequence[CompiledObject]
    gaps: Sequence[Gap]


class DifferenceKind(StrEnum):
    """The ways in which a cluster differs from the policies."""

    MISSING = "missing"
    OTHER = "other"
    SURPLUS = "surplus"


@dataclass(frozen=True, slots=True, order=True)
class Difference:
    """An object of a cluster that is not as compiled; `path` is the first field that differs, empty without one."""

    kind: str
    namespace: str
    name: str
    difference: DifferenceKind
    path: str = ""

    @property
    def is_surplus(self) -> bool:
        """Whether the policies give no such object."""
        return self.difference is DifferenceKind.SURPLUS

    def __str__(self) -> str:
        place = f" in {self.namespace}" if self.namespace else ""
        path = f": {self.path}" if self.path else ""
        return f"{self.difference.value}: {self.kind} {self.name}{place}{path}"


def compile_policies(policies: PolicySet, cluster: ObservedCluster, now: datetime | None) -> Compilation:
    """Return the objects that enforce a part of the policies, with the gaps.

    Overrides of caps that have ended at `now` give no limit (`create_resource_quotas`).
    """
    quotas, quota_gaps = create_resource_quotas(policies, cluster, now)
    admission_policies, rule_gaps = create_admission_policies(policies, sorted(cluster.excluded_namespaces))
    return Compilation([*quotas, *admission_policies], sorted((*quota_gaps, *rule_gaps)))


def compare_objects(compiled: Iterable[CompiledObject], applied: Iterable[CompiledObject]) -> list[Difference]:
    """Return how a cluster differs from the compiled objects, ordered by kind, namespace and name."""
    expected, found = ({_get_key(content): content for content in objects} for objects in (compiled, applied))
    differences = [Difference(*key, DifferenceKind.MISSING) for key in expected.keys() - found.keys()]
    differences += (Difference(*key, DifferenceKind.SURPLUS) for key in found.keys() - expected.keys())
    for key in expected.keys() & found.keys():
        if path := _find_difference(expected[key], found[key]):
            differences.append(Difference(*key, DifferenceKind.OTHER, path))
    return sorted(differences)


def _get_key(content: CompiledObject) -> tuple[str, str, str]:
    metadata = content["metadata"]
    return content["kind"], metadata.get("namespace") or "", metadata["name"]


def _find_difference(compiled: CompiledObject, applied: CompiledObject) -> str:
    """Return the path of the first field that differs; empty if the objects mean the same."""
    expected, found = (
        {name: (content["metadata"].get("labels") or {}).get(name) for name in _LABELS}
        for content in (compiled, applied)
    )
    if expected != found:
        return "metadata.labels"
    return _compare("spec", _remove_defaults(compiled.get("spec")), _remove_defaults(applied.get("spec")))


def _compare(path: str, expected: Any, found: Any) -> str:
    if isinstance(expected, dict) and isinstance(found, dict):
        names = sorted({*expected, *found})
        return next(
            filter(None, (_compare(f"{path}.{name}", expected.get(name), found.get(name)) for name in names)), ""
        )
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        pairs = enumerate(zip(expected, found, strict=True))
        return next(filter(None, (_compare(f"{path}[{number}]", *pair) for number, pair in pairs)), "")
    return "" if expected == found else path


def _remove_defaults(value: Any, field: str = "") -> Any:
    """Return a value without the fields that are empty or have their default, and with amounts in canonical form."""
    if field == "hard" and isinstance(value, dict):
        return {name: _normalize_amount(amount) for name, amount in value.items()}
    if isinstance(value, dict):
        reduced = {name: _remove_defaults(content, name) for name, content in value.items()}
        return {
            name: content
            for name, content in reduced.items()
            if content not in _EMPTY and content != _DEFAULTS.get(name)
        }
    return [_remove_defaults(item) for item in value] if isinstance(value, list) else value


def _normalize_amount(amount: Any) -> str:
    try:
        return Quantity.parse(str(amount)).canonical
    except QuantityError:
        return str(amount)
