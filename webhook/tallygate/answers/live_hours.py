"""The hours for which pods and claims had devices since a server began to watch them, in a bounded memory.

Of what is stored each pod and claim is known by itself. Of what has ended the sums are kept: by namespace, workload,
labels and name of devices. Beyond `MAX_SUMS` the oldest ones of the namespace with the most sums become one for each
name of devices, so that a namespace with many workloads leaves those of others as they are. Sums by namespace stay
exact by that.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from tallygate.answers.columns import API_VERSION
from tallygate.answers.device_hours import (
    ALL_COLUMNS,
    OTHERS,
    Amounts,
    DeviceHours,
    Grouping,
    HoursSums,
    format_duration,
    measure,
)
from tallygate.answers.usage_report import format_time
from tallygate.cluster.device_times import ConsumerMeter, TimedConsumer
from tallygate.kube.resource_codec import Changed, Deleted, Replaced, WatchEvent
from tallygate.state.informers.named_stores import NamespaceRecord
from tallygate.state.informers.pod_records import PodRecord
from tallygate.state.informers.pod_templates import LABELS_OF_ONE_POD

MAX_SUMS: Final = 20_000
"""The sums of what has ended."""

_MAX_OTHERS: Final = 100
"""The names of devices of the pods and claims of a namespace whose workload is not kept."""

_FOREVER: Final = 1 << 62
_CHECKED_EVERY: Final = 1000

_Labels = tuple[tuple[str, str], ...] | None
_Entry = tuple[str | None, _Labels]
_OTHERS: Final[_Entry] = (None, None)


class EndedSums:
    """The sums of the pods and claims that have ended, at most `max_sums`; `has_others` once some are merged.

    `dropped` is the number of sums that are left out, since even those of namespaces were too many.
    """

    def __init__(self, max_sums: int = MAX_SUMS) -> None:
        self._max_sums = max_sums
        self._sums: dict[str, dict[_Entry, dict[str, Amounts]]] = {}  # by namespace, the oldest entry first
        self._counts: dict[str, int] = {}
        self._count = 0
        self.has_others = False
        self.dropped = 0

    def __len__(self) -> int:
        return self._count

    def add(self, consumer: TimedConsumer, begin: int, *, has_names: bool = True) -> None:
        """Add what a pod or claim had since `begin`; without its workload and labels if not `has_names`."""
        entry = (consumer.workload, _select_labels(consumer.labels)) if has_names else _OTHERS
        for resource, amounts in measure(consumer, begin, _FOREVER):
            self._put(consumer.namespace, entry, resource, amounts)
        while self._count > self._max_sums:
            self._shrink()

    def forget_names(self, namespace: str) -> None:
        """Keep of a namespace one sum for each name of devices, without workloads and labels."""
        while any(entry != _OTHERS for entry in self._sums.get(namespace, ())):
            self._merge_oldest(namespace)

    def list_sums(
        self, namespace: str | None
    ) -> Iterator[tuple[str, str | None, Mapping[str, str] | None, str, Amounts]]:
        """Yield namespace, workload, labels and name of devices of each sum, with its amounts; None for all of them."""
        names = self._sums if namespace is None else [namespace]
        for name in names:
            for (workload, labels), by_resource in self._sums.get(name, {}).items():
                known = None if labels is None else dict(labels)
                for resource, amounts in by_resource.items():
                    yield name, workload, known, resource, amounts

    def _put(self, namespace: str, entry: _Entry, resource: str, amounts: Amounts) -> None:
        entries = self._sums.setdefault(namespace, {})
        sums = entries.pop(entry, {})
        entries[entry] = sums  # the newest is the last
        if resource in sums:
            sums[resource] = sums[resource].plus(amounts)
        elif entry == _OTHERS and len(sums) >= _MAX_OTHERS:
            self.dropped += 1
        else:
            sums[resource] = amounts
            self._add_count(namespace, 1)

    def _add_count(self, namespace: str, number: int) -> None:
        self._count += number
        self._counts[namespace] = self._counts.get(namespace, 0) + number

    def _shrink(self) -> None:
        """Merge the older half of the entries of the namespace with the most sums, or leave out its only one."""
        namespace = max(self._counts, key=self._counts.__getitem__)
        if [*self._sums[namespace]] == [_OTHERS]:
            self.dropped += self._counts[namespace]
            self._add_count(namespace, -self._counts[namespace])
            del self._sums[namespace], self._counts[namespace]
        else:
            self._merge_oldest(namespace)

    def _merge_oldest(self, namespace: str) -> None:
        self.has_others = True
        entries = self._sums[namespace]
        oldest = [entry for entry in entries if entry != _OTHERS]
        for entry in oldest[: (len(oldest) + 1) // 2]:
            sums = entries.pop(entry)
            self._add_count(namespace, -len(sums))
            for resource, amounts in sums.items():
                self._put(namespace, _OTHERS, resource, amounts)


def _select_labels(labels: Mapping[str, str] | None) -> _Labels:
    """Return the labels that equal pods have in common; None if they are not known."""
    return None if labels is None else tuple(sorted(i for i in labels.items() if i[0] not in LABELS_OF_ONE_POD))


class HoursQuestion(NamedTuple):
    """The namespace of a report, None for all, and its groups as they are written and as they are read."""

    namespace: str | None
    by: str
    grouping: Grouping


class LiveHours:
    """The hours since the first list of pods; `now` returns seconds since 1970.

    `get_classes` returns the extended resources of the classes of devices. A caller guards all calls by one lock.
    """

    def __init__(
        self, now: Callable[[], int], get_classes: Callable[[], Mapping[str, str]], max_sums: int = MAX_SUMS
    ) -> None:
        self._now = now
        self._get_classes = get_classes
        self._ended = EndedSums(max_sums)
        self._meter = ConsumerMeter(self._end)
        self._namespaces: set[str] | None = None

    def apply_namespaces(self, event: WatchEvent[NamespaceRecord]) -> None:
        """Apply an event of namespaces: of a deleted one no names are kept, since its name may become another's."""
        before = self._namespaces or set()
        if isinstance(event, Replaced):
            self._namespaces = {record.name for record in event.items}
        elif self._namespaces is not None and isinstance(event, Changed):
            self._namespaces.add(event.item.name)
        elif self._namespaces is not None and isinstance(event, Deleted):
            self._namespaces.discard(event.item.name)
            before = {event.item.name}
        for name in before - (self._namespaces or set()):
            self._ended.forget_names(name)

    def apply_pods(self, event: WatchEvent[PodRecord]) -> None:
        """Apply an event of pods, whose records have times."""
        self._meter.names.update(self._get_classes())
        self._meter.apply_pods(event, self._now())

    def apply_claims(self, event: WatchEvent[PodRecord]) -> None:
        """Apply an event of claims."""
        self._meter.names.update(self._get_classes())
        self._meter.apply_claims(event, self._now())

    def answer(
        self, question: HoursQuestion, as_of: int, claims_problem: str, check_time: Callable[[], None]
    ) -> dict[str, Any]:
        """Return an AskHours as plain data, until `as_of` or the last event.

        `claims_problem` says why claims are not known, empty if they are. `check_time` is called between parts.
        """
        meter = self._meter
        meter.names.update(self._get_classes())
        until, since = max(as_of, meter.pods.known_until, meter.claims.known_until), meter.pods.begin or as_of
        return {
            "apiVersion": API_VERSION,
            "kind": "AskHours",
            "namespace": question.namespace,
            "by": question.by,
            "since": _format_seconds(since),
            "until": _format_seconds(until),
            "longestGapSeconds": self._find_longest_gap(),
            "items": list(map(ALL_COLUMNS.to_dict, self._sum(question, since, until, check_time))),
            "notes": list(self._list_notes(since, claims_problem)),
        }

    def _end(self, consumer: TimedConsumer) -> None:
        has_names = self._namespaces is None or consumer.namespace in self._namespaces
        self._ended.add(consumer, self._meter.pods.begin or 0, has_names=has_names)

    def _sum(
        self, question: HoursQuestion, since: int, until: int, check_time: Callable[[], None]
    ) -> list[DeviceHours]:
        sums, namespace = HoursSums(question.grouping), question.namespace
        for number, ended in enumerate(self._ended.list_sums(namespace)):
            if number % _CHECKED_EVERY == 0:
                check_time()
            sums.add(*ended)
        for number, consumer in enumerate(self._meter.list_timed(until, until, namespace)):
            if number % _CHECKED_EVERY == 0:
                check_time()
            sums.add_consumer(consumer, since, until)
        return sums.list_hours()

    def _find_longest_gap(self) -> int:
        return max(self._meter.pods.longest_gap, self._meter.claims.longest_gap)

    def _list_notes(self, since: int, claims_problem: str) -> Iterator[str]:
        yield f"since {_format_seconds(since)}, when this server began to watch: nothing before is counted"
        if gap := self._find_longest_gap():
            yield (
                f"the watch was interrupted for up to {format_duration(gap)}: a pod or claim that began and ended in "
                "such a time is not counted"
            )
        claims_since = self._meter.claims.begin
        if claims_problem:
            yield f"not all claims for devices are counted: {claims_problem}"
        elif claims_since is not None and claims_since > since + _SAME_START_SECONDS:
            yield f"claims for devices are known since {_format_seconds(claims_since)}"
        if self._ended.has_others:
            yield f"{OTHERS}: of pods and claims that ended long ago only the sums of their namespace are kept"
        if self._ended.dropped:
            yield f"{self._ended.dropped} sums of a namespace and a name of devices are left out: there are too many"


_SAME_START_SECONDS: Final = 10


def _format_seconds(seconds: int) -> str:
    return format_time(datetime.fromtimestamp(seconds, UTC))
