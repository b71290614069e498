"""The capacities of which limits are percentages, settled: a rise counts at once, a fall after `settle` (rule 8).

The settled capacity of a name is the largest one that this replica has measured within the last `settle` seconds of its
monotonic clock: a sliding maximum. So a node that reboots lowers no limit. A replica that starts has measured nothing
yet. It takes what the leader has recorded as measured by itself, each until the leader's own time of it ends.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, NamedTuple

from tallygate.admission.capacity_limits import NO_CAPACITIES, NO_CAPACITY, Capacity, CapCapacities
from tallygate.policy.cap_limits import NO_SELECTION
from tallygate.policy.model import NamespaceCap, PolicySet
from tallygate.state.ports import CapacityRecord, RecordedCapacity, RecordedStep

_SPANS: Final = 60
"""The number of spans of `settle`: the falls within one act together, as its last, so at most a span late."""
_FORECAST_SECONDS: Final = 10.0
"""The least time between two values that differ in falls to come alone: they decide nothing, and nodes may flap."""


class _Step(NamedTuple):
    """A capacity that was measured until `ended_at`, by the monotonic clock and by that of the wall."""

    amount: int
    ended_at: float
    unix_time: float


@dataclass(slots=True)
class _Window:
    """The steps of one name that count: each is smaller than the one before, and ended later. The last is of now.

    `amount` is the capacity of now, None while it is not known.
    """

    steps: list[_Step] = field(default_factory=list)
    amount: int | None = None

    def measure(self, amount: int | None, now: float, unix_now: float, settle: float) -> None:
        """Put the capacity of now in place of the former one, and drop the steps that do not count any more."""
        if self.amount is not None and amount != self.amount:
            self.add(_Step(self.amount, now, unix_now), settle)
        self.amount = amount
        self.steps = [
            step for step in self.steps if step.ended_at + settle > now and (amount is None or step.amount > amount)
        ]

    def add(self, step: _Step, settle: float) -> None:
        """Add a step that ended later than all others."""
        while self.steps and self.steps[-1].amount <= step.amount:
            self.steps.pop()
        if self.steps and self.steps[-1].ended_at // (settle / _SPANS) == step.ended_at // (settle / _SPANS):
            step = step._replace(amount=self.steps.pop().amount)
        self.steps.append(step)

    def find_capacity(self, settle: float) -> Capacity | None:
        """Return the settled capacity with the next fall, or None while the capacity is not known."""
        if self.amount is None:
            return None
        if not self.steps:
            return Capacity(self.amount)
        later = self.steps[1].amount if len(self.steps) > 1 else self.amount
        falls_at = datetime.fromtimestamp(self.steps[0].unix_time + settle, UTC)
        return Capacity(self.steps[0].amount, later, falls_at)


@dataclass(slots=True)
class _SettlingCap:
    """The windows of one cap by name; they begin again with another `selection` of nodes and devices."""

    selection: str
    windows: dict[str, _Window] = field(default_factory=dict)


class SettledCapacities:
    """The settled capacities of one replica. One thread measures; any thread may read `capacities`.

    `monotonic` is in seconds, `unix_time` in seconds of the Unix epoch. `record` is what the leader had recorded as
    this replica started.
    """

    def __init__(
        self,
        monotonic: Callable[[], float],
        unix_time: Callable[[], float],
        record: CapacityRecord | None = None,
    ) -> None:
        self._monotonic = monotonic
        self._unix_time = unix_time
        self._record, self._started_at, self._started_unix = record, monotonic(), unix_time()
        self._caps: dict[str, _SettlingCap] = {}
        self._settles: dict[str, float] = {}
        self._published_at = -_FORECAST_SECONDS
        self.capacities: CapCapacities = NO_CAPACITIES
        """The settled capacities: the same object until one of them, or a fall to come, changes."""

    def measure(self, policies: PolicySet, measured: CapCapacities) -> CapCapacities:
        """Take the capacities that were measured now, and return the settled ones."""
        now, unix_now = self._monotonic(), self._unix_time()
        following = {cap.name: cap for cap in policies.caps if cap.follows_capacity}
        self._settles = {name: float((cap.capacity or NO_SELECTION).settle) for name, cap in following.items()}
        self._caps = {name: self._find_cap(cap) for name, cap in following.items()}
        for name, cap in self._caps.items():
            amounts, settle = measured.get(name, NO_CAPACITY), self._settles[name]
            for resource in cap.windows.keys() | amounts.keys():
                window = cap.windows.setdefault(resource, _Window())
                window.measure(amounts[resource].amount if resource in amounts else None, now, unix_now, settle)
            cap.windows = {resource: window for resource, window in cap.windows.items() if _is_needed(window)}
        self._publish(now)
        return self.capacities

    def create_record(self) -> CapacityRecord:
        """Return what a replica that starts needs: all steps that count, and the capacities of now."""
        caps = {
            name: RecordedCapacity(
                cap.selection, {resource: tuple(_list_steps(window)) for resource, window in cap.windows.items()}
            )
            for name, cap in self._caps.items()
        }
        return CapacityRecord(self._unix_time(), caps)

    def _find_cap(self, definition: NamespaceCap) -> _SettlingCap:
        """Return the windows of a cap: the same ones as long as its capacities are of the same."""
        selection, name = _identify_selection(definition), definition.name
        cap = self._caps.get(name)
        if cap is not None and cap.selection == selection:
            return cap
        if cap is None and self._record is not None and name in self._record.caps:
            recorded, settle = self._record.caps[name], self._settles[name]
            if recorded.selection == selection and self._is_recent(self._record, settle):
                windows = {resource: self._restore(steps, settle) for resource, steps in recorded.steps.items()}
                return _SettlingCap(selection, windows)
        return _SettlingCap(selection)

    def _is_recent(self, record: CapacityRecord, settle: float) -> bool:
        """Return whether a record is no older than `settle`, by the clocks of its writer and of this replica."""
        return abs(self._started_unix - record.written_at) <= settle

    def _restore(self, steps: Sequence[RecordedStep], settle: float) -> _Window:
        """Return the window of recorded steps: what had not ended did so at the start of this replica."""
        window = _Window()
        for amount, ended_at in steps:
            age = 0.0 if ended_at is None else max(0.0, self._started_unix - ended_at)
            window.add(_Step(amount, self._started_at - age, self._started_unix - age), settle)
        return window

    def _publish(self, now: float) -> None:
        """Publish the capacities of now; those that differ in falls to come alone only from time to time."""
        settled, known = self._compute(), self.capacities
        if settled == known:
            return
        is_new = {name: _list_amounts(cap) for name, cap in settled.items()} != {
            name: _list_amounts(cap) for name, cap in known.items()
        }
        if is_new or now >= self._published_at + _FORECAST_SECONDS:
            self.capacities, self._published_at = settled, now

    def _compute(self) -> CapCapacities:
        return {
            name: {
                resource: capacity
                for resource, window in cap.windows.items()
                if (capacity := window.find_capacity(self._settles[name])) is not None
            }
            for name, cap in self._caps.items()
        }


def _is_needed(window: _Window) -> bool:
    return window.amount is not None or bool(window.steps)


def _list_steps(window: _Window) -> Iterator[RecordedStep]:
    for step in window.steps:
        yield RecordedStep(step.amount, step.unix_time)
    if window.amount is not None:
        yield RecordedStep(window.amount, None)


def _list_amounts(capacities: Mapping[str, Capacity]) -> dict[str, int]:
    return {name: capacity.amount for name, capacity in capacities.items()}


def _identify_selection(definition: NamespaceCap) -> str:
    """Return a hash (10 hex digits) of the nodes that a cap selects, and of what counts there under its names."""
    selection = definition.capacity or NO_SELECTION
    rules = (
        selection.node_selector,
        selection.exclude_taints,
        int(selection.not_ready),
        selection.node_shapes,
        sorted(definition.devices.items(), key=_get_name),
        sorted(definition.counts.items(), key=_get_name),
    )
    return hashlib.sha256(repr(rules).encode()).hexdigest()[:10]


def _get_name(item: tuple[str, object]) -> str:
    return item[0]
