"""The hard limits of a cap over time: those of its overrides until these end, then its own.

For each name the first override counts that selects the group or namespace, has the name and has not ended; the one of
an annotation comes before those of the policy. Each result depends on the time and the annotations alone, whatever it
was asked before: a clock that is set back brings a limit back.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType

from tallygate.accounting.amounts import Amounts, format_amount
from tallygate.accounting.charge import compute_hard_limits
from tallygate.admission.capacity_limits import CapacityShare, ResolvedLimits
from tallygate.policy.globs import matches
from tallygate.policy.model import LimitOverride, NamespaceCap
from tallygate.policy.times import format_time

_NO_OVERRIDES: Mapping[str, LimitOverride] = MappingProxyType({})
_BEFORE_ALL = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class LimitPeriod:
    """The limit of one name now, with the different ones before and after it, where there are any.

    `most` is the largest limit from now on, by any capacity.
    """

    hard: int
    start: datetime | None
    earlier: int | None
    end: datetime | None
    later: int | None
    most: int

    def describe_change(self, name: str) -> str:
        """Return the end of the limit and the next one, or else the limit before and its end; empty without any."""
        if self.end is not None and self.later is not None:
            return f"until {format_time(self.end)}, then {format_amount(name, self.later)}"
        if self.start is not None and self.earlier is not None:
            return f"was {format_amount(name, self.earlier)} until {format_time(self.start)}"
        return ""


@dataclass(frozen=True, slots=True, eq=False)
class CurrentLimits:
    """The hard limits now, the period of each one that an override changes at any time, and those that are shares.

    A name whose limit is `unknown` has none in `hard`.
    """

    hard: Amounts
    periods: Mapping[str, LimitPeriod] = field(default_factory=dict)
    shares: Mapping[str, CapacityShare] = field(default_factory=dict)
    unknown: frozenset[str] = frozenset()

    def get_most(self, name: str) -> int:
        """Return the largest limit of a name from now on, by any capacity; 0 without one."""
        period, share = self.periods.get(name), self.shares.get(name)
        if period is not None:
            return period.most
        return self.hard.get(name, 0) if share is None else share.most

    def follows_capacity(self, name: str) -> bool:
        """Return whether more capacity makes the limit of a name larger that counts now."""
        share = self.shares.get(name)
        return share is not None and name not in self.periods and share.most > share.limit

    def describe(self, name: str, hard: int | None = None) -> str:
        """Return the limit of a name with its end; `hard` is the limit that decides, if a ledger has a smaller one."""
        limit = self.hard[name] if hard is None else hard
        period, share = self.periods.get(name), self.shares.get(name)
        notes = [] if share is None or share.limit != limit else [share.describe(name)]
        notes += [] if period is None or period.hard != limit else filter(None, [period.describe_change(name)])
        return f"{format_amount(name, limit)} ({'; '.join(notes)})" if notes else format_amount(name, limit)


class LimitSchedule:
    """The limits of one cap by group or namespace at one time; at no time (None) every override with an end has ended.

    Groups and namespaces that the same overrides select have the same limits object. `base` are the limits of the cap
    itself, `annotated` the overrides that annotations give, by namespace.
    """

    def __init__(
        self,
        definition: NamespaceCap,
        base: ResolvedLimits,
        now: datetime | None,
        annotated: Mapping[str, LimitOverride] = _NO_OVERRIDES,
    ) -> None:
        self._now = now
        self._base = base
        self._annotated = {
            name: (annotated_override, compute_hard_limits(annotated_override.hard))
            for name, annotated_override in annotated.items()
        }
        self._overrides = tuple((override, compute_hard_limits(override.hard)) for override in definition.overrides)
        self._by_selected: dict[tuple[str, tuple[int, ...]], CurrentLimits] = {}
        self.has_namespaces = bool(annotated) or any(override.namespaces for override in definition.overrides)

    def find_limits(self, group: str | None, namespace: str) -> CurrentLimits:
        """Return the limits of a group, or else of a namespace; without both, those that no selection changes."""
        selected = tuple(
            index for index, (override, _) in enumerate(self._overrides) if _is_selected(override, group, namespace)
        )
        key = (namespace if namespace in self._annotated else "", selected)
        limits = self._by_selected.get(key)
        if limits is None:
            limits = self._by_selected[key] = self._compute_limits(*key)
        return limits

    def _compute_limits(self, annotated: str, selected: tuple[int, ...]) -> CurrentLimits:
        overrides = [self._annotated[annotated]] if annotated else []
        overrides += [self._overrides[index] for index in selected]
        base = self._base.amounts
        names = sorted({name for _, hard in overrides for name in hard if name in base})
        periods = {name: self._find_period(name, overrides) for name in names}
        return CurrentLimits(
            Amounts({**base, **{name: period.hard for name, period in periods.items()}}) if periods else base,
            periods,
            self._base.shares,
            self._base.unknown,
        )

    def _find_period(self, name: str, overrides: list[tuple[LimitOverride, Amounts]]) -> LimitPeriod:
        """Return the period of a name: its limits before the first end, and from each end on."""
        ends = sorted({override.until for override, hard in overrides if name in hard and override.until is not None})
        times = (_BEFORE_ALL, *ends)
        limits = [self._find_limit(name, overrides, time) for time in times]
        position = len(ends) if self._now is None else bisect_right(ends, self._now)
        hard = limits[position]
        later = next((index for index in range(position, len(ends)) if limits[index + 1] != hard), None)
        earlier = next((index for index in reversed(range(position)) if limits[index] != hard), None)
        return LimitPeriod(
            hard,
            start=None if earlier is None else ends[earlier],
            earlier=None if earlier is None else limits[earlier],
            end=None if later is None else ends[later],
            later=None if later is None else limits[later + 1],
            most=max(self._find_most(name, overrides, time) for time in times[position:]),
        )

    def _find_limit(self, name: str, overrides: list[tuple[LimitOverride, Amounts]], time: datetime) -> int:
        return next(_list_active(name, overrides, time), self._base.amounts[name])

    def _find_most(self, name: str, overrides: list[tuple[LimitOverride, Amounts]], time: datetime) -> int:
        """Return the largest limit of a name at a time, by any capacity."""
        share = self._base.shares.get(name)
        most = self._base.amounts[name] if share is None else share.most
        return next(_list_active(name, overrides, time), most)


def _list_active(name: str, overrides: list[tuple[LimitOverride, Amounts]], time: datetime) -> Iterator[int]:
    """Yield the limits of a name by the overrides that have not ended, the one that counts first."""
    return (hard[name] for override, hard in overrides if name in hard and not override.has_ended(time))


def _is_selected(override: LimitOverride, group: str | None, namespace: str) -> bool:
    if override.groups:
        return group is not None and any(matches(glob, group) for glob in override.groups)
    return not override.namespaces or any(matches(glob, namespace) for glob in override.namespaces)
