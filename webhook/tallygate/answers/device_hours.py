"""The hours for which pods had devices, from what several snapshots of a cluster show.

A pod has the devices that it requests from its start on a node until it ends. The time of its start is in its status.
That of its end is in its status too if a snapshot shows the ended pod; else it is between the last snapshot that shows
it running and the next one. So each sum has a least and a largest amount, whose difference the gaps between snapshots
bound. Pods that no snapshot shows are not counted. All amounts are whole devices times whole seconds.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from tallygate.answers.columns import Column, Columns

_HOUR: Final = 3600


class SeenPod(NamedTuple):
    """A pod on a node as a snapshot shows it: its extended resources, and its times in seconds since 1970.

    `started` and `ended` are None where its status does not have them.
    """

    uid: str
    namespace: str
    workload: str
    labels: Mapping[str, str]
    amounts: Mapping[str, int]
    created: int | None = None
    started: int | None = None
    has_ended: bool = False
    ended: int | None = None


@dataclass(slots=True)
class _Track:
    """One pod as all snapshots show it: the times of the first and last ones that show it running, None for none.

    `previous` is the time of the snapshot before the first one with the pod, `seen_ended` that of the first one that
    shows it ended.
    """

    pod: SeenPod
    previous: int | None
    first: int | None = None
    last: int | None = None
    seen_ended: int | None = None
    started: int | None = None
    ended: int | None = None

    def add(self, pod: SeenPod, time: int) -> None:
        """Add what a snapshot of this time shows."""
        self.started = pod.started if self.started is None else self.started
        if pod.has_ended:
            self.seen_ended = time if self.seen_ended is None else self.seen_ended
            self.ended = pod.ended if self.ended is None else self.ended
        else:
            self.first = time if self.first is None else self.first
            self.last = time


class HoursKey(NamedTuple):
    """A group of pods, and a resource; `workload` and `value` of a label are None where they make no groups."""

    namespace: str | None
    workload: str | None
    value: str | None
    resource: str


class DeviceHours(NamedTuple):
    """The device-seconds of a group, at least and at most, and the number of its pods."""

    key: HoursKey
    seconds: int
    most_seconds: int
    pods: int


class Grouping(NamedTuple):
    """The groups of a report: by namespace, by namespace and workload, or by the value of the label `label` of pods."""

    by_workload: bool = False
    label: str = ""

    def create_key(self, pod: SeenPod, resource: str) -> HoursKey:
        """Return the group of a pod; a pod without the label is in the group with the empty value."""
        if self.label:
            return HoursKey(None, None, pod.labels.get(self.label, ""), resource)
        return HoursKey(pod.namespace, pod.workload if self.by_workload else None, None, resource)


class HoursMeter:
    """The pods of snapshots, which are added in the order of their times."""

    def __init__(self) -> None:
        self.times: list[int] = []
        self._tracks: dict[str, _Track] = {}

    def add_snapshot(self, time: int, pods: Iterable[SeenPod]) -> None:
        """Add a snapshot that is newer than the last one."""
        previous = self.times[-1] if self.times else None
        for pod in pods:
            if pod.uid not in self._tracks:
                self._tracks[pod.uid] = _Track(pod, previous)
            self._tracks[pod.uid].add(pod, time)
        self.times.append(time)

    def find_longest_gap(self) -> int:
        """Return the longest time between two snapshots, in seconds."""
        return max((later - time for time, later in zip(self.times, self.times[1:], strict=False)), default=0)

    def sum_hours(self, grouping: Grouping, begin: int, end: int) -> list[DeviceHours]:
        """Return the sums of each group from `begin` until `end`, those with the most hours of a resource first."""
        sums: dict[HoursKey, list[int]] = {}
        for track in self._tracks.values():
            least, most = self._compute_bounds(track, begin, end)
            for resource, amount in track.pod.amounts.items() if most else ():
                parts = sums.setdefault(grouping.create_key(track.pod, resource), [0, 0, 0])
                parts[0] += amount * least
                parts[1] += amount * most
                parts[2] += 1
        found = [DeviceHours(key, *parts) for key, parts in sums.items()]
        return sorted(found, key=lambda hours: (hours.key.resource, -hours.seconds, hours.key[:3]))

    def _compute_bounds(self, track: _Track, begin: int, end: int) -> tuple[int, int]:
        """Return the least and the largest number of seconds for which a pod had its devices in a period."""
        known_end = track.ended if track.ended is not None else track.last
        known_start = track.started if track.started is not None else track.first
        least = 0
        if known_start is not None and known_end is not None:  # else no snapshot shows it running
            least = max(min(known_end, end) - max(known_start, begin), 0)
        earliest = track.started if track.started is not None else self._find_earliest(track)
        latest = track.ended if track.ended is not None else self._find_latest(track)
        return least, max(min(latest, end) - max(earliest, begin), least)

    def _find_earliest(self, track: _Track) -> int:
        known = [time for time in (track.pod.created, track.previous) if time is not None]
        return max(known, default=self.times[0])

    def _find_latest(self, track: _Track) -> int:
        """Return the time of the first snapshot that shows the pod no longer running; the last one if all show it."""
        if track.seen_ended is not None:
            return track.seen_ended
        number = bisect_right(self.times, track.last or 0)
        return self.times[min(number, len(self.times) - 1)]


def format_hours(seconds: int) -> str:
    """Return hours with two decimals, rounded half up."""
    hundredths = (seconds * 100 + _HOUR // 2) // _HOUR
    return f"{hundredths // 100}.{hundredths % 100:02d}"


def create_columns(grouping: Grouping) -> Columns[DeviceHours]:
    """Return the columns of a report with these groups."""
    return Columns[DeviceHours](*_list_group_columns(grouping), *_AMOUNTS)


def _list_group_columns(grouping: Grouping) -> Iterator[Column[Any]]:
    if grouping.label:
        yield Column("LABEL", "value", lambda hours: hours.key.value, lambda hours: hours.key.value or "(none)")
        return
    yield Column("NAMESPACE", "namespace", lambda hours: hours.key.namespace)
    if grouping.by_workload:
        yield Column("WORKLOAD", "workload", lambda hours: hours.key.workload)


_AMOUNTS: Final = (
    Column[DeviceHours]("RESOURCE", "resource", lambda hours: hours.key.resource),
    Column[DeviceHours]("HOURS", "hours", lambda hours: format_hours(hours.seconds)),
    Column[DeviceHours]("UP TO", "hoursAtMost", lambda hours: format_hours(hours.most_seconds)),
    Column[DeviceHours]("", "seconds"),
    Column[DeviceHours]("", "secondsAtMost", lambda hours: hours.most_seconds),
    Column[DeviceHours]("PODS", "pods"),
)
