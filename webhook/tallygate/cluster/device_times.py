"""The pods and claims that have devices, over time: what a watch, or a series of lists, shows of them.

A pod has the devices that it requests from its start on a node until its last container ended. Its status has the time
of the start, and that of the end once it has ended. A claim has its devices from its allocation until that is removed
or the claim is deleted: from then to then no other claim gets them, whether or not a pod uses them. Its status has the
time of the allocation; no object has that of its end. A claim counts once, however many pods use it, and pods do not
count the devices of their claims.

What the objects do not say is known from the times of events. A watch shows each change when it happens. A list after
an interruption, or the next snapshot of a series, shows what has changed since the last event: the time of the change
then has a lower and an upper bound.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

from tallygate.accounting.charge import ConsumerKind
from tallygate.accounting.claim_charge import compute_claim_charge, find_device_sources, list_claim_classes
from tallygate.accounting.names import DEVICE_CLASS_PREFIX, DEVICES_SUFFIX, is_extended
from tallygate.accounting.pod_requests import compute_pod_requests
from tallygate.accounting.quantity_parser import QuantityError
from tallygate.cluster.consumer_sums import KIND_NAMES, find_owner
from tallygate.kube.resource_codec import Bookmark, Changed, Replaced, WatchEvent
from tallygate.objects.core import PodSpec
from tallygate.objects.meta import ObjectMeta
from tallygate.state.informers.claim_records import ClaimGroup, ClaimRecord
from tallygate.state.informers.pod_records import ChargeGroup, PodRecord

MAX_LABEL_CHARACTERS: Final = 2_000
"""The characters of labels that are kept; of a pod or claim with more none is known."""

_MAX_RESOURCES: Final = 100
"""The names of devices of a pod; a pod with more counts nothing, since no node has that number."""

_MAX_CLASSES: Final = 10_000
"""The classes beyond which the names of deleted ones are forgotten."""

_NO_AMOUNTS: Final[Mapping[str, int]] = MappingProxyType({})
_NO_LABELS: Final[Mapping[str, str]] = MappingProxyType({})


class Span(NamedTuple):
    """The bounds of the time for which something has devices, in seconds since 1970.

    `latest_start` and `earliest_end` are None where nothing shows it while it has them.
    """

    earliest_start: int
    latest_start: int | None
    earliest_end: int | None
    latest_end: int

    def measure(self, begin: int, end: int) -> tuple[int, int]:
        """Return the least and the largest number of seconds within a period."""
        least = 0
        if self.latest_start is not None and self.earliest_end is not None:
            least = max(min(self.earliest_end, end) - max(self.latest_start, begin), 0)
        return least, max(min(self.latest_end, end) - max(self.earliest_start, begin), least)


class TimedConsumer(NamedTuple):
    """A pod or claim that has, or had, amounts of devices; `labels` are None if they are too long to be kept."""

    kind: ConsumerKind
    namespace: str
    workload: str
    labels: Mapping[str, str] | None
    amounts: Mapping[str, int]
    span: Span


class DeviceNames:
    """The one name under which the devices of a class count: its extended resource, or else the name of the class.

    So a pod's `nvidia.com/gpu` and a claim for a device of a class with that extended resource are one line. A class
    that is deleted keeps its last name.
    """

    def __init__(self) -> None:
        self._listed: Mapping[str, str] = _NO_LABELS
        self._resources: dict[str, str] = {}
        self._amounts: WeakKeyDictionary[ChargeGroup, Mapping[str, int]] = WeakKeyDictionary()

    def update(self, resources_by_class: Mapping[str, str]) -> None:
        """Set the extended resources of the classes that there are, empty for those without one."""
        if resources_by_class is not self._listed:
            self._listed = resources_by_class
            former = self._resources if len(self._resources) < _MAX_CLASSES else {}
            self._resources = {**former, **resources_by_class}
            self._amounts = WeakKeyDictionary()

    def sum_requests(self, requests: Mapping[str, int]) -> Mapping[str, int]:
        """Return the requests of a pod by the names of devices."""
        if not any(name.startswith(DEVICE_CLASS_PREFIX) for name in requests):
            return requests
        sums: dict[str, int] = {}
        for resource, amount in requests.items():
            is_class = resource.startswith(DEVICE_CLASS_PREFIX)
            name = self._name_class(resource.removeprefix(DEVICE_CLASS_PREFIX)) if is_class else resource
            sums[name] = sums.get(name, 0) + amount
        return sums

    def count_devices(self, group: ClaimGroup) -> Mapping[str, int]:
        """Return the allocated devices of claims by the names of devices, as caps count them."""
        amounts = self._amounts.get(group)
        if amounts is None:
            claim = group.to_claim()
            names = {self._name_class(class_name) for class_name in list_claim_classes(claim)}
            sources = find_device_sources(names, self._resources, {})
            amounts = self._amounts[group] = compute_claim_charge(claim, sources)
        return amounts

    def _name_class(self, class_name: str) -> str:
        return self._resources.get(class_name) or class_name + DEVICES_SUFFIX


class _PodFacts(NamedTuple):
    """The common part of the pods of a group; `requests` are those for devices."""

    workload: str = ""
    labels: Mapping[str, str] | None = _NO_LABELS
    requests: Mapping[str, int] = _NO_AMOUNTS
    has_claims: bool = False


_NO_FACTS: Final = _PodFacts()


@dataclass(slots=True, eq=False)
class SeenConsumer:
    """A pod or claim that is stored and has or had devices, with the bounds of its time as in a Span.

    `claim_name` is the claim that kube-scheduler made for a pod. `is_reserved` is set for a claim that kube-scheduler
    seems to have made, and reserved for its pod. `owner` is the pod that owned a claim, once that pod has ended.
    """

    uid: str
    namespace: str
    name: str
    group: ChargeGroup
    earliest_start: int
    latest_start: int | None = None
    earliest_end: int | None = None
    latest_end: int | None = None
    is_start_known: bool = False
    is_end_known: bool = False
    claim_name: str = ""
    owner_uid: str = ""
    is_reserved: bool = False
    owner: "SeenConsumer | None" = None

    def see(self, record: PodRecord, previous: int, time: int) -> None:
        """Add what an event of this time shows; `previous` is the time up to which all was known before."""
        self.claim_name = record.claim_name or self.claim_name
        if record.started and not self.is_start_known:
            self.earliest_start = self.latest_start = record.started
            self.is_start_known = True
        if not record.has_ended:
            self.latest_start = time if self.latest_start is None else self.latest_start
        elif self.latest_end is None:
            self.end(previous, time)
        if record.has_ended and record.ended and not self.is_end_known:
            self.earliest_end = self.latest_end = record.ended
            self.is_end_known = True

    def is_allocated_again(self, record: PodRecord) -> bool:
        """Return whether a claim has lost its devices, and has got others, since it was seen."""
        return isinstance(record, ClaimRecord) and self.is_start_known and record.started > (self.latest_start or 0)

    def end(self, earliest: int, latest: int) -> None:
        """Set the bounds of the end, unless it has ended before."""
        if self.latest_end is None:
            self.earliest_end, self.latest_end = earliest, latest

    def create_span(self, known_until: int, until: int) -> Span:
        """Return the bounds of its time; what has not ended has devices until `known_until`, and maybe later."""
        if self.latest_end is None:
            return Span(self.earliest_start, self.latest_start, known_until, until)
        return Span(self.earliest_start, self.latest_start, self.earliest_end, self.latest_end)


class ConsumerTracker:
    """The pods, or the claims, that have devices, by their events in order; each event has its time.

    `has_devices` says which do, and `record_new` gets each new one. `begin` is the time of the first list, None before.
    `known_until` is the time of the last event, and `longest_gap` the longest time in seconds between a list and the
    event before it. What began and ended in such a gap is not known.
    """

    def __init__(self, has_devices: Callable[[PodRecord], bool], record_new: Callable[[SeenConsumer], object]) -> None:
        self._has_devices = has_devices
        self._record_new = record_new
        self._seen: dict[str, SeenConsumer] = {}
        self._revision = 0
        self.begin: int | None = None
        self.known_until = 0
        self.longest_gap = 0

    def apply(self, event: WatchEvent[PodRecord], time: int) -> list[SeenConsumer]:
        """Apply an event, unless it is older than the last one; return what has ended, with the bounds of its end."""
        time = max(time, self.known_until)  # a clock that is set back
        if isinstance(event, Replaced):
            ended = self._replace(event, time)
        elif self.begin is None or event.revision <= self._revision:
            return []
        else:
            ended = self._change(event, time)
        self._revision, self.known_until = event.revision, time
        return ended

    def find(self, uid: str) -> SeenConsumer | None:
        return self._seen.get(uid)

    def list_seen(self) -> Iterable[SeenConsumer]:
        return self._seen.values()

    def _replace(self, event: Replaced[PodRecord], time: int) -> list[SeenConsumer]:
        previous = self.known_until
        if self.begin is None:
            self.begin = time
        else:
            self.longest_gap = max(self.longest_gap, time - previous)
        listed = {record.uid for record in event.items}
        ended = [self._remove(uid, previous, time) for uid in [uid for uid in self._seen if uid not in listed]]
        for record in event.items:
            ended += self._see(record, previous, time)
        return ended

    def _change(self, event: WatchEvent[PodRecord], time: int) -> list[SeenConsumer]:
        if isinstance(event, (Replaced, Bookmark)):
            return []
        ended = list(self._see(event.item, time, time))
        if not isinstance(event, Changed) and event.item.uid in self._seen:
            ended.append(self._remove(event.item.uid, time, time))
        return ended

    def _see(self, record: PodRecord, previous: int, time: int) -> Iterator[SeenConsumer]:
        """Add what an event shows of one object; yield the seen that it shows to be over, if there is one."""
        seen = self._seen.get(record.uid)
        if not self._has_devices(record):
            if seen is not None:
                yield self._remove(record.uid, previous, time)
            return
        if seen is not None and seen.is_allocated_again(record):
            yield self._remove(record.uid, previous, max(previous, min(record.started, time)))
            seen = None
        if seen is None:
            earliest = max(record.created, previous)
            seen = SeenConsumer(record.uid, record.namespace, record.name, record.group, earliest)
            self._seen[record.uid] = seen
            if isinstance(record, ClaimRecord):
                seen.owner_uid = record.owner_uid
            self._record_new(seen)
        if isinstance(record, ClaimRecord):
            seen.is_reserved = seen.is_reserved or record.is_reserved
        seen.group = record.group
        seen.see(record, previous, time)

    def _remove(self, uid: str, previous: int, time: int) -> SeenConsumer:
        seen = self._seen.pop(uid)
        seen.end(previous, time)
        return seen


class ConsumerMeter:
    """The pods and claims with devices of one cluster; `end` gets each once it has ended.

    Events of one kind are in order, and those of both may come in any order. `names` has the classes of devices.
    """

    def __init__(self, end: Callable[[TimedConsumer], None]) -> None:
        self._end = end
        self.names = DeviceNames()
        self._facts: WeakKeyDictionary[ChargeGroup, _PodFacts] = WeakKeyDictionary()
        self._owned: dict[str, list[SeenConsumer]] = {}  # by the UID of the pod: its claims
        self.pods = ConsumerTracker(self._is_pod_with_devices, lambda _: None)
        self.claims = ConsumerTracker(_has_allocation, self._record_owned)

    def apply_pods(self, event: WatchEvent[PodRecord], time: int) -> None:
        """Apply an event of pods; `time` is in seconds since 1970."""
        for pod in self.pods.apply(event, time):
            for claim in self._owned.get(pod.uid, ()):
                claim.owner = pod
            self._finish(self._create_timed_pod(pod, pod.create_span(time, time)))

    def apply_claims(self, event: WatchEvent[PodRecord], time: int) -> None:
        """Apply an event of claims; `time` is in seconds since 1970."""
        for claim in self.claims.apply(event, time):
            self._finish(self._create_timed_claim(claim, claim.create_span(time, time)))
            if owned := self._owned.get(claim.owner_uid):
                owned.remove(claim)
                if not owned:
                    del self._owned[claim.owner_uid]

    def list_timed(self, until: int, as_of: int = 0, namespace: str | None = None) -> Iterator[TimedConsumer]:
        """Yield what is stored in a namespace, or in all, until a time.

        All changes until `as_of` are known, or those until the last event if that is later. What has not ended by then
        may have its devices until the end.
        """
        known_pods, known_claims = (min(until, max(each.known_until, as_of)) for each in (self.pods, self.claims))
        for pod in self.pods.list_seen():
            if namespace in {None, pod.namespace}:
                yield self._create_timed_pod(pod, pod.create_span(known_pods, until))
        for claim in self.claims.list_seen():
            if namespace in {None, claim.namespace}:
                yield self._create_timed_claim(claim, claim.create_span(known_claims, until))

    def _finish(self, consumer: TimedConsumer) -> None:
        if consumer.amounts:
            self._end(consumer)

    def _record_owned(self, claim: SeenConsumer) -> None:
        if claim.owner_uid:
            self._owned.setdefault(claim.owner_uid, []).append(claim)

    def _is_pod_with_devices(self, record: PodRecord) -> bool:
        if not record.node:
            return False
        facts = self._read_facts(record.group)
        return bool(facts.requests) or facts.has_claims

    def _read_facts(self, group: ChargeGroup) -> _PodFacts:
        facts = self._facts.get(group)
        if facts is None:
            facts = self._facts[group] = _read_pod_facts(group)
        return facts

    def _create_timed_pod(self, pod: SeenConsumer, span: Span) -> TimedConsumer:
        facts = self._read_facts(pod.group)
        amounts = self.names.sum_requests(facts.requests)
        workload = facts.workload or f"{KIND_NAMES[ConsumerKind.POD]} {pod.name}"
        return TimedConsumer(ConsumerKind.POD, pod.namespace, workload, facts.labels, amounts, span)

    def _create_timed_claim(self, claim: SeenConsumer, span: Span) -> TimedConsumer:
        """Return a claim; one that a pod owns has the workload and the labels of that pod.

        A claim that kube-scheduler made for a pod has what it has besides the pod, as under caps.
        """
        assert isinstance(claim.group, ClaimGroup)  # noqa: S101  # a store of claims has no others
        amounts = self.names.count_devices(claim.group)
        owner = claim.owner or self.pods.find(claim.owner_uid)
        kind = ConsumerKind.CLAIM
        if owner is None or owner.namespace != claim.namespace:
            name = f"{KIND_NAMES[kind]} {claim.name}"
            return TimedConsumer(kind, claim.namespace, name, _read_claim_labels(claim.group), amounts, span)
        pod = self._create_timed_pod(owner, span)
        if claim.is_reserved and owner.claim_name == claim.name:
            rest = {name: amount - pod.amounts.get(name, 0) for name, amount in amounts.items()}
            amounts = {name: amount for name, amount in rest.items() if amount > 0}
        return TimedConsumer(kind, claim.namespace, pod.workload, pod.labels, amounts, span)


def _has_allocation(record: PodRecord) -> bool:
    return isinstance(record, ClaimRecord) and bool(record.devices)


def _read_pod_facts(group: ChargeGroup) -> _PodFacts:
    pod = group.to_pod()
    spec = pod.spec or PodSpec()
    try:
        quantities = compute_pod_requests(spec).quantities
    except QuantityError:
        return _NO_FACTS  # no API server stores such a pod
    requests = {
        name: quantity.value()
        for name, quantity in quantities.items()
        if quantity.sign > 0 and (is_extended(name) or name.startswith(DEVICE_CLASS_PREFIX))
    }
    if not (requests or spec.resource_claims) or len(requests) > _MAX_RESOURCES:
        return _NO_FACTS
    return _PodFacts(find_owner(pod), _limit_labels(pod.metadata), requests, bool(spec.resource_claims))


def _read_claim_labels(group: ClaimGroup) -> Mapping[str, str] | None:
    return _limit_labels(group.to_claim().metadata)


def _limit_labels(metadata: ObjectMeta | None) -> Mapping[str, str] | None:
    labels = (metadata.labels if metadata else None) or _NO_LABELS
    return labels if sum(map(len, (*labels, *labels.values()))) <= MAX_LABEL_CHARACTERS else None
