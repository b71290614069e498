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

_NOTHING = Quantity(0)
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
    def least(self) -> Quantity:
        """The smallest limit by any capacity: `atMost` counts before `atLeast`."""
        least = _NOTHING if self.at_least is None else self.at_least
        return least if self.at_most is None else min(least, self.at_most)

    @property
    def most(self) -> Quantity | None:
        """The largest limit by any capacity, None without a bound."""
        return self.at_most if self.percent else self.least

    def describe(self) -> str:
        """Return the percentage with its bounds and its rounding, as in `25% (at most 8)`."""
        parts = [] if self.at_least is None else [f"at least {self.at_least}"]
        parts += [] if self.at_most is None else [f"at most {self.at_most}"]
        parts += ["rounded up"] if self.rounding is Rounding.UP else []
        return f"{self.percent} ({', '.join(parts)})" if parts else str(self.percent)

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

    Percentages of the same capacity can be compared, and by their bounds those of others.
    """
    most, least = find_most(limit), other if isinstance(other, Quantity) else other.least
    if most is not None and most <= least:
        return True
    if isinstance(limit, Quantity) or isinstance(other, Quantity) or not has_same_capacity:
        return False
    is_rounded_more = limit.rounding is Rounding.UP and other.rounding is Rounding.DOWN
    is_bounded = other.at_most is None or (limit.at_most is not None and limit.at_most <= other.at_most)
    return limit.percent <= other.percent and not is_rounded_more and limit.least <= other.least and is_bounded


def find_most(limit: CapLimit) -> Quantity | None:
    """Return the largest amount of a limit by any capacity, None without a bound."""
    return limit if isinstance(limit, Quantity) else limit.most


def describe_limit(limit: CapLimit) -> str:
    """Return a limit as text, a percentage with its bounds."""
    return str(limit) if isinstance(limit, Quantity) else limit.describe()


def list_amounts(limit: CapLimit) -> Iterator[tuple[str, Quantity]]:
    """Yield the amounts in a limit, each with its path below it: empty for the limit itself."""
    if isinstance(limit, Quantity):
        yield "", limit
        return
    for path, amount in ((".atLeast", limit.at_least), (".atMost", limit.at_most)):
        if amount is not None:
            yield path, amount
