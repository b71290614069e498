"""The model of published amounts: `NodeResource`, and what a node gets by all of them.

A name that two definitions give different amounts on one node is a problem, as is a field of the node that is no
amount: such a name is left as it is on the node.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from ipaddress import ip_network
from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec import Meta

from tallygate.accounting.quantity import Quantity
from tallygate.accounting.quantity_parser import QuantityError
from tallygate.accounting.selectors import Selector
from tallygate.objects.owned_nodes import OwnedNode
from tallygate.policy.selectors import LabelKey, WrittenQuantity
from tallygate.policy.written import Written

MAX_AMOUNT = (1 << 63) - 1
"""The largest amount that Kubernetes counts."""

_PodRange = Literal["podCIDR"]
AMOUNT_FIELDS = frozenset({"from", "fromLabel", "fromAnnotation", "fromCapacity"})
"""The names of the fields of a policy that say where on a node an amount is."""


class PublishedAmount(Written, frozen=True):
    """The field of a node with an amount."""

    pod_range: Annotated[_PodRange | None, Meta(examples=["podCIDR"], extra_json_schema={"type": "string"})] = (
        msgspec.field(default=None, name="from")
    )
    """podCIDR: the addresses of the node's range for pods; of two ranges, those of the smaller one. Left out: the
    amount is from another field."""
    label: Annotated[LabelKey | None, Meta(title="From a label", examples=["net.example.com/gbit"])] = msgspec.field(
        default=None, name="fromLabel"
    )
    """The label of the node whose value is the amount, a quantity. Left out: the amount is from another field."""
    annotation: Annotated[LabelKey | None, Meta(title="From an annotation", examples=["net.example.com/bandwidth"])] = (
        msgspec.field(default=None, name="fromAnnotation")
    )
    """The annotation of the node whose value is the amount, a quantity. Left out: the amount is from another field."""
    capacity: (
        Annotated[str, Meta(title="From another capacity", max_length=317, examples=["ephemeral-storage"])] | None
    ) = msgspec.field(default=None, name="fromCapacity")
    """The resource of the node's capacity that is divided by unit. Left out: the amount is from another field."""
    unit: Annotated[WrittenQuantity, Meta(examples=["100Gi"], extra_json_schema={"default": 1})] = msgspec.field(
        default_factory=partial(Quantity.from_int, 1)
    )
    """The size of a chunk: the amount is the number of whole chunks, rounded down."""
    minus: Annotated[
        Quantity,
        Meta(examples=[3], extra_json_schema={"type": "number", "minimum": 0, "default": 0, "format": "quantity"}),
    ] = msgspec.field(default_factory=partial(Quantity.from_int, 0))
    """A whole number that is subtracted at the end; the result is at least 0."""


@dataclass(frozen=True, slots=True)
class NodeResource:
    """The amounts that nodes with some labels get.

    `positions` are file, line and column of each field by its path, and of the document by an empty one.
    """

    name: str
    nodes: Selector
    resources: Mapping[str, int | PublishedAmount]
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


def compute_amount(node: OwnedNode, definition: int | PublishedAmount) -> int | None:
    """Return the amount of a node, or None if it does not have the field.

    Raises:
        QuantityError: if the field is no quantity.
        ValueError: if it is no range of addresses, or the amount is negative or too large.
    """
    if isinstance(definition, int):
        return definition
    quantity = _read_field(node, definition)
    if quantity is None:
        return None
    if quantity.sign < 0:
        raise ValueError(f"{_describe_field(definition)} is {quantity}, below zero")
    amount, unit, _ = quantity.align(definition.unit)
    result = max(amount // unit - definition.minus.value(), 0)
    if result > MAX_AMOUNT:
        raise ValueError(f"{_describe_field(definition)} has {result}; Kubernetes counts to {MAX_AMOUNT}: set a unit")
    return result


def _read_field(node: OwnedNode, definition: PublishedAmount) -> Quantity | None:
    if definition.label is not None:
        text = (node.metadata.labels or {}).get(definition.label)
    elif definition.annotation is not None:
        text = (node.metadata.annotations or {}).get(definition.annotation)
    elif definition.capacity is not None:
        raw = node.capacity.get(definition.capacity)
        text = None if raw is None else str(msgspec.json.decode(raw))
    else:
        sizes = list(_list_range_sizes(node))
        return Quantity.from_int(min(sizes)) if sizes else None
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


def _describe_field(definition: PublishedAmount) -> str:
    keys = {"label": definition.label, "annotation": definition.annotation, "capacity": definition.capacity}
    return next((f"{noun} {key}" for noun, key in keys.items() if key is not None), "")
