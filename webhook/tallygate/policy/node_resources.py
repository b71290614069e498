"""The model of published amounts: `NodeResource`, and what a node gets by all of them.

A name that two definitions give different amounts on one node is a problem, as is a field of the node that is no
amount: such a name is left as it is on the node.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import ip_network
from typing import NamedTuple

import msgspec

from tallygate.accounting.quantity import Quantity
from tallygate.accounting.quantity_parser import QuantityError
from tallygate.accounting.selectors import Selector
from tallygate.objects.owned_nodes import OwnedNode

MAX_AMOUNT = (1 << 63) - 1
"""The largest amount that Kubernetes counts."""

_ONE = Quantity.from_int(1)


class AmountField(StrEnum):
    """The field of a node that has an amount, as the policy names it."""

    POD_CIDR = "from"
    LABEL = "fromLabel"
    ANNOTATION = "fromAnnotation"
    CAPACITY = "fromCapacity"


@dataclass(frozen=True, slots=True)
class AmountDefinition:
    """The amount of one resource: `fixed`, or the value of a field of the node, in chunks of `unit`, less `minus`."""

    fixed: int = 0
    source: AmountField | None = None
    key: str = ""
    unit: Quantity = _ONE
    minus: int = 0


@dataclass(frozen=True, slots=True)
class NodeResource:
    """The amounts that nodes with some labels get.

    `positions` are file, line and column of each field by its path, and of the document by an empty one.
    """

    name: str
    nodes: Selector
    resources: Mapping[str, AmountDefinition]
    positions: Mapping[str, tuple[str, int, int]] = field(compare=False, repr=False)


class NodeAmounts(NamedTuple):
    """The amounts of one node by name, and the problem of each name that has no certain amount."""

    amounts: Mapping[str, int]
    problems: Mapping[str, str]


def compute_node_amounts(node: OwnedNode, definitions: Sequence[NodeResource]) -> NodeAmounts:
    """Return what a node gets by all definitions. A name whose field is missing on the node gets nothing."""
    amounts: dict[str, int] = {}
    givers: dict[str, str] = {}
    problems: dict[str, str] = {}
    labels = node.metadata.labels or {}
    for resource in definitions:
        if not resource.nodes.matches(labels):
            continue
        for name, definition in resource.resources.items():
            try:
                amount = compute_amount(node, definition)
            except (QuantityError, ValueError) as error:
                problems.setdefault(name, f"NodeResource {resource.name}: {error}")
                continue
            if amount is None:
                continue
            if amounts.setdefault(name, amount) != amount:
                first = givers[name]
                problems.setdefault(
                    name, f"NodeResource {first} gives {amounts[name]}, NodeResource {resource.name} {amount}: keep one"
                )
            givers.setdefault(name, resource.name)
    certain = {name: amount for name, amount in amounts.items() if name not in problems}
    return NodeAmounts(certain, problems)


def compute_amount(node: OwnedNode, definition: AmountDefinition) -> int | None:
    """Return the amount of a node, or None if it does not have the field.

    Raises:
        QuantityError: if the field is no quantity.
        ValueError: if it is no range of addresses, or the amount is negative or too large.
    """
    if definition.source is None:
        return definition.fixed
    quantity = _read_field(node, definition)
    if quantity is None:
        return None
    if quantity.sign < 0:
        raise ValueError(f"{_describe_field(definition)} is {quantity}, below zero")
    amount, unit, _ = quantity.align(definition.unit)
    result = max(amount // unit - definition.minus, 0)
    if result > MAX_AMOUNT:
        raise ValueError(f"{_describe_field(definition)} has {result}; Kubernetes counts to {MAX_AMOUNT}: set a unit")
    return result


def _read_field(node: OwnedNode, definition: AmountDefinition) -> Quantity | None:
    match definition.source:
        case AmountField.POD_CIDR:
            sizes = list(_list_range_sizes(node))
            return Quantity.from_int(min(sizes)) if sizes else None
        case AmountField.LABEL:
            text = (node.metadata.labels or {}).get(definition.key)
        case AmountField.ANNOTATION:
            text = (node.metadata.annotations or {}).get(definition.key)
        case _:
            raw = node.capacity.get(definition.key)
            text = None if raw is None else str(msgspec.json.decode(raw))
    if text is None:
        return None
    try:
        return Quantity.parse(text)
    except QuantityError as error:
        raise QuantityError(f"{_describe_field(definition)} is {text[:64]!r}: {error}") from error


def _list_range_sizes(node: OwnedNode) -> Iterator[int]:
    """Yield the sizes of the ranges: a pod has an address of each family."""
    for text in node.spec.pod_cidrs or ():
        yield ip_network(text, strict=False).num_addresses


def _describe_field(definition: AmountDefinition) -> str:
    noun = {AmountField.LABEL: "label", AmountField.ANNOTATION: "annotation", AmountField.CAPACITY: "capacity"}
    return f"{noun.get(definition.source, '')} {definition.key}".strip() if definition.source else ""
