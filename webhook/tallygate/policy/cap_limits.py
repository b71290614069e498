"""The limits of caps: amounts, or percentages of the capacity of nodes, which the cap selects."""

from abc import ABC
from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from tallygate.accounting.percent import Percent
from tallygate.accounting.quantity import Quantity
from tallygate.policy.periods import Seconds
from tallygate.policy.selectors import LABEL_SELECTOR, LabelKey, PolicyLabelSelector, WrittenQuantity
from tallygate.policy.written import UNIQUE, Written, convert

_PERIOD = {"type": "string", "format": "period", "maxLength": 64}


class Rounding(StrEnum):
    """The values of `round`."""

    DOWN = "down"
    UP = "up"


class PercentLimit(Written, frozen=True):
    """A limit that follows the capacity of nodes, in percent of it."""

    percent: Annotated[
        Percent,
        Meta(examples=["25%", "12.5%"], extra_json_schema={"type": "string", "format": "percent", "maxLength": 16}),
    ]
    """The share of the capacity that spec.capacity selects: up to three decimals, up to 1000%."""
    at_least: Annotated[WrittenQuantity | None, Meta(title="At least")] = None
    """The smallest limit, however little capacity there is; left out: 0."""
    at_most: Annotated[WrittenQuantity | None, Meta(title="At most")] = None
    """The largest limit, however much capacity there is; left out: none."""
    rounding: Annotated[Rounding, Meta(examples=["up"])] = msgspec.field(default=Rounding.DOWN, name="round")
    """How a share is rounded to whole units: to thousandths of cpu, to bytes of memory, else to whole numbers."""

    @property
    def least(self) -> Quantity | None:
        """The least that the limit ever is, None for 0: `atMost` counts before `atLeast`."""
        if self.at_least is None or self.at_most is None:
            return self.at_least
        return min(self.at_least, self.at_most)

    def __str__(self) -> str:
        return str(self.percent)


class WrittenLimit(ABC):  # noqa: B024  # the two forms are registered below
    """A limit as it is written: an amount, `25%`, or a mapping with a percentage and its bounds."""

    @staticmethod
    def read_written(value: Any) -> "Quantity | PercentLimit":
        """Return the limit of a value that the schema has accepted."""
        if isinstance(value, dict):
            return convert(value, PercentLimit)
        text = str(value)
        return PercentLimit(Percent.parse(text)) if text.endswith("%") else Quantity.parse(text)


WrittenLimit.register(Quantity)
WrittenLimit.register(PercentLimit)

if TYPE_CHECKING:
    CapLimit = Quantity | PercentLimit
else:  # msgspec accepts no union of a Struct and a type of our own
    CapLimit = WrittenLimit

CapLimits = Annotated[
    Mapping[
        str,
        Annotated[
            CapLimit,
            Meta(
                title="Limit",
                description="A Kubernetes quantity, not negative: 8, 1500m, 64Gi, 1e3. Or a percentage of the capacity "
                "of nodes: 25%, or a mapping with percent and its bounds.",
                examples=[8, "64Gi", "25%", {"percent": "25%", "atLeast": 4}],
                extra_json_schema={
                    "type": ["number", "string", "object"],
                    "format": "limit",
                    "pattern": "^[+]?[0-9.]+([numkMGTPE]|[KMGTPE]i|[eE][-+]?[0-9]+|%)?$",
                    "minimum": 0,
                    "maxLength": 64,
                    "struct": PercentLimit.__name__,
                },
            ),
        ],
    ],
    Meta(
        description="Counted names with the largest amount of each: resources ('nvidia.com/gpu', or 'requests.cpu', "
        "the same as 'cpu'), their limits ('limits.memory'; a pod without that limit is denied), and 'pods'. A "
        "percentage is of the capacity that spec.capacity selects.",
        min_length=1,
        max_length=100,
        examples=[{"nvidia.com/gpu": 8, "requests.cpu": "32", "limits.memory": "64Gi", "pods": 50}],
        extra_json_schema={"propertyNames": {"format": "counted-name"}},
    ),
]
"""Limits by counted name; the prefix `requests.` is removed."""


class CapacitySelection(Written, frozen=True):
    """The capacity that percentages are of: the nodes that count, and when a fall acts."""

    node_selector: Annotated[PolicyLabelSelector | None, LABEL_SELECTOR] = None
    """The nodes, by their labels; left out: all."""
    exclude_taints: Annotated[
        tuple[
            Annotated[LabelKey, Meta(title="Taint key", description="The key of a taint.", examples=["maintenance"])],
            ...,
        ],
        Meta(
            min_length=1,
            max_length=100,
            examples=[["maintenance", "node.kubernetes.io/unschedulable"]],
            extra_json_schema=UNIQUE,
        ),
    ] = ()
    """The keys of taints: a node with one of them does not count. Left out: taints change nothing."""
    not_ready: Annotated[Seconds, Meta(examples=["5m"], extra_json_schema={**_PERIOD, "default": "5m"})] = (
        msgspec.field(default_factory=partial(Seconds, 300), name="notReadyFor")
    )
    """A node that is not ready for longer than this does not count: up to 24h."""
    node_shapes: Annotated[bool, Meta(examples=[True])] = False
    """true: nodes that may come count too, those of each NodeShape that the selection matches, as many as `most`."""
    settle: Annotated[Seconds, Meta(examples=["10m"], extra_json_schema={**_PERIOD, "default": "10m"})] = msgspec.field(
        default_factory=partial(Seconds, 600)
    )
    """The time after which less capacity lowers the limits, up to 24h: a node that comes back before has lowered none.
    More capacity raises them at once."""


NO_SELECTION = CapacitySelection()


def is_never_above(limit: CapLimit, other: CapLimit, *, has_same_capacity: bool) -> bool:
    """Return whether a limit is at most the other one, however much capacity there is; False where that depends on it.

    Percentages can be compared if they are of the same capacity, with the same bounds and rounding.
    """
    if isinstance(limit, Quantity):
        least = other if isinstance(other, Quantity) else other.least
        return least is not None and limit <= least
    if isinstance(other, Quantity):
        return limit.at_most is not None and limit.at_most <= other
    is_alike = msgspec.structs.replace(limit, percent=other.percent) == other
    return has_same_capacity and is_alike and limit.percent <= other.percent


def list_amounts(limit: CapLimit) -> Iterator[tuple[str, Quantity]]:
    """Yield the amounts in a limit, each with its path below it: empty for the limit itself."""
    if isinstance(limit, Quantity):
        yield "", limit
        return
    for path, amount in ((".atLeast", limit.at_least), (".atMost", limit.at_most)):
        if amount is not None:
            yield path, amount
