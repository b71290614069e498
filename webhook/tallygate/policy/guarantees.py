"""The guarantees of a shared cap: amounts that its member namespaces have for themselves (rule 15).

For each name the first entry counts that selects the namespace and has the name. A percentage is of the hard limit that
the cap has now under that name, rounded down.
"""

from abc import ABC
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from tallygate.accounting.amounts import Amounts, round_down_to_unit
from tallygate.accounting.percent import Percent
from tallygate.accounting.quantity import Quantity
from tallygate.policy.globs import matches
from tallygate.policy.selectors import NamespacePatterns
from tallygate.policy.written import Written

NO_GUARANTEES: Mapping[str, Amounts] = MappingProxyType({})

MAX_GUARANTEED = 500
"""Maximum number of namespaces with a guarantee in one ledger: every write of it stores the guarantees of all."""


class WrittenShare(ABC):  # noqa: B024  # the two forms are registered below
    """An amount, or a share of the hard limit in percent."""

    @staticmethod
    def read_written(value: Any) -> "Quantity | Percent":
        """Return the amount of a value that the schema has accepted."""
        text = str(value)
        return Percent.parse(text) if text.endswith("%") else Quantity.parse(text)


WrittenShare.register(Quantity)
WrittenShare.register(Percent)

if TYPE_CHECKING:
    GuaranteedAmount = Quantity | Percent
else:  # msgspec accepts no union of two types of our own
    GuaranteedAmount = WrittenShare


class Guarantee(Written, frozen=True, kw_only=True):
    """The amounts that some member namespaces of a shared cap have for themselves."""

    namespaces: Annotated[NamespacePatterns, Meta(examples=[["team-a"]])]
    """The member namespaces, by names or globs. Each of them has the amounts for itself."""
    amounts: Annotated[
        Mapping[
            str,
            Annotated[
                GuaranteedAmount,
                Meta(
                    title="Guaranteed amount",
                    description="A Kubernetes quantity, not negative: 8, 1500m, 64Gi. Or a percentage of the hard "
                    "limit that the cap has under that name: 12.5%, rounded down.",
                    examples=[8, "64Gi", "12.5%"],
                    extra_json_schema={
                        "type": ["number", "string"],
                        "format": "limit",
                        "pattern": "^[+]?[0-9.]+([numkMGTPE]|[KMGTPE]i|[eE][-+]?[0-9]+|%)?$",
                        "minimum": 0,
                        "maxLength": 64,
                    },
                ),
            ],
        ],
        Meta(
            description="Counted names of hard with the amount of each that is guaranteed.",
            min_length=1,
            max_length=100,
            examples=[{"nvidia.com/gpu": 8}],
            extra_json_schema={"propertyNames": {"format": "counted-name"}},
        ),
    ]
    """The amounts, of names that are in hard."""

    @property
    def quantities(self) -> Mapping[str, Quantity]:
        """The amounts that are no percentages."""
        return {name: amount for name, amount in self.amounts.items() if isinstance(amount, Quantity)}


Guarantees = Annotated[
    tuple[
        Annotated[
            Guarantee,
            Meta(
                title="Guarantee",
                description="Member namespaces, and the amounts that each of them has for itself.",
                examples=[{"namespaces": ["team-a"], "amounts": {"nvidia.com/gpu": 8}}],
            ),
        ],
        ...,
    ],
    Meta(
        description="Parts of a shared cap, or of each group, that member namespaces have for themselves. No request "
        "takes the unspent guarantees of other namespaces. The rest is lent to any of them, and nothing is taken back. "
        "For each name the first entry counts that selects the namespace and has the name. Left out: nothing is "
        "guaranteed.",
        min_length=1,
        max_length=MAX_GUARANTEED,
        examples=[[{"namespaces": ["team-*"], "amounts": {"nvidia.com/gpu": "12.5%"}}]],
    ),
]


def resolve_guarantees(entries: Iterable[Guarantee], hard: Amounts, members: Collection[str]) -> Mapping[str, Amounts]:
    """Return the guarantees of the members that have one, under the names that have a limit now.

    A ledger has at most `MAX_GUARANTEED`: the first ones, in the order of their names.
    """
    entries = tuple(entries)
    found = ((name, _resolve(entries, hard, name)) for name in sorted(members))
    return MappingProxyType(dict(islice(((name, amounts) for name, amounts in found if amounts), MAX_GUARANTEED)))


def count_beyond_most(entries: Iterable[Guarantee], hard: Amounts, members: Collection[str]) -> int:
    """Return the number of members that an entry selects, and that have no guarantee since a ledger has no more."""
    if len(members) <= MAX_GUARANTEED:
        return 0
    entries = tuple(entries)
    return max(0, sum(bool(_resolve(entries, hard, name)) for name in members) - MAX_GUARANTEED)


def _resolve(entries: Iterable[Guarantee], hard: Amounts, namespace: str) -> Amounts:
    guaranteed: dict[str, int] = {}
    for entry in entries:
        if any(matches(glob, namespace) for glob in entry.namespaces):
            for name, amount in _list_amounts(entry, hard):
                guaranteed.setdefault(name, amount)
    return Amounts({name: amount for name, amount in guaranteed.items() if amount})


def _list_amounts(entry: Guarantee, hard: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    for name, written in entry.amounts.items():
        if name in hard:
            yield name, compute_guaranteed(name, written, hard[name])


def compute_guaranteed(name: str, written: GuaranteedAmount, hard: int) -> int:
    """Return a guarantee in the unit of a name; a percentage is of the hard limit, rounded down."""
    return written.compute_share(hard) if isinstance(written, Percent) else round_down_to_unit(name, written)
