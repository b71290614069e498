"""The hours for which pods and claims had devices, from a folder of snapshots that are named by their times."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import msgspec

from tallygate.accounting.charge import ConsumerKind
from tallygate.answers.device_hours import DeviceHours, Grouping, HoursSums, format_duration
from tallygate.answers.usage_report import format_time
from tallygate.cli import framework, progress
from tallygate.cli.sources.snapshot_file import SnapshotError, read_items
from tallygate.cluster.consumer_sums import KIND_NAMES
from tallygate.cluster.device_times import ConsumerMeter, ConsumerTracker, TimedConsumer
from tallygate.kube.resource_codec import Replaced
from tallygate.objects.devices import DeviceClass, DeviceClassSpec, ResourceClaim
from tallygate.objects.meta import ObjectMeta
from tallygate.objects.timed_pods import TimedPod
from tallygate.policy.times import TimeError, parse_time
from tallygate.state.informers.claim_records import ClaimGroup, ClaimRecord, create_claim_record
from tallygate.state.informers.pod_records import ChargeGroupInterner, PodRecord, create_pod_record

_NAME_PATTERN = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})T([0-9]{2}):?([0-9]{2}):?([0-9]{2})Z", re.ASCII)
_NAME_ADVICE = 'name it by the time, as `tallygate snapshot "$(date -u +%Y-%m-%dT%H%M%SZ).json.gz"` does'
_OTHER_KINDS = frozenset({"Node", "Namespace"})
_POD_DECODER = msgspec.json.Decoder(TimedPod)
_CLAIM_DECODER = msgspec.json.Decoder(ResourceClaim)
_CLASS_DECODER = msgspec.json.Decoder(DeviceClass)
_EPOCH, _SECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(seconds=1)
_SOME_REVISION = "1"
_CLAIM_LIST_KIND = "ResourceClaimList"
"""The mark of a snapshot that has all claims of its cluster, even if the cluster has none."""


class SnapshotHours(NamedTuple):
    """The sums of a period, its begin and end in seconds since 1970, and how they were found."""

    records: list[DeviceHours]
    period: tuple[int, int]
    snapshots: int
    longest_gap: int
    notes: list[str]


class _SnapshotSeries:
    """The snapshots that were read, in the order of their times.

    `without_claims` is the number of those in which pods have claims for devices that are not in the file.
    """

    def __init__(self) -> None:
        self.times: list[int] = []
        self.without_claims = 0
        self._has_claims = self._needs_claims = False
        self.ended: list[TimedConsumer] = []
        self.meter = ConsumerMeter(self.ended.append)
        self._pod_groups, self._claim_groups = ChargeGroupInterner(), ChargeGroupInterner(ClaimGroup)
        self._pods: list[PodRecord] = []
        self._claims: list[PodRecord] = []
        self._classes: dict[str, str] = {}
        self._lacking: dict[str, Path] = {}  # by the UID of a pod or claim that was seen: the first file without it

    def read(self, time: int, path: Path) -> None:
        """Add a snapshot that is newer than the last one.

        Raises:
            SnapshotError: if the file is not a snapshot, or an earlier one was not of the whole cluster.
        """
        self._pods, self._claims, self._classes = [], [], {}
        self._has_claims = self._needs_claims = False
        read_items(path, self._add, lambda _: None)
        self.meter.names.update(self._classes)
        self._check_whole(path, self.meter.pods, self._pods)
        self.meter.apply_pods(Replaced(self._pods, 1), time)
        if self._has_claims:
            self._check_whole(path, self.meter.claims, self._claims)
            self.meter.apply_claims(Replaced(self._claims, 1), time)
        elif self._needs_claims:
            self.without_claims += 1
        self.times.append(time)

    def _check_whole(self, path: Path, tracker: ConsumerTracker, records: Sequence[PodRecord]) -> None:
        """Check that no pod or claim is stored again which an earlier snapshot lacks: no other one has its UID.

        Raises:
            SnapshotError: naming the snapshot that lacks it.
        """
        seen, listed = {each.uid for each in tracker.list_seen()}, {record.uid: record for record in records}
        for uid in self._lacking.keys() & listed.keys():
            record = listed[uid]
            kind = ConsumerKind.CLAIM if isinstance(record, ClaimRecord) else ConsumerKind.POD
            found = f"{KIND_NAMES[kind]} {record.namespace}/{record.name}"
            raise SnapshotError(
                f"{self._lacking[uid]}: it lacks {found}, which earlier snapshots and {path} have, so it is not of the "
                "whole cluster; remove it"
            )
        self._lacking |= dict.fromkeys(seen - listed.keys(), path)

    def _add(self, kind: str, item: msgspec.Raw) -> bool:
        """Add an object of a snapshot; return whether snapshots have its kind.

        Raises:
            ValueError: if it has no UID, name or namespace, or a time is no time.
        """
        if kind == "Pod":
            pod = _POD_DECODER.decode(item)
            spec = pod.spec
            if spec is not None and spec.node_name:
                pod = msgspec.structs.replace(pod, metadata=_set_revision(pod.metadata))
                self._pods.append(create_pod_record(pod, self._pod_groups))
                self._needs_claims = self._needs_claims or bool(spec.resource_claims)
        elif kind == _CLAIM_LIST_KIND:
            self._has_claims = True
        elif kind == "ResourceClaim":
            self._has_claims = True
            claim = _CLAIM_DECODER.decode(item)
            claim = msgspec.structs.replace(claim, metadata=_set_revision(claim.metadata))
            self._claims.append(create_claim_record(claim, self._claim_groups))
        elif kind == "DeviceClass":
            device_class = _CLASS_DECODER.decode(item)
            resource = (device_class.spec or DeviceClassSpec()).extended_resource_name
            self._classes[(device_class.metadata or ObjectMeta()).name or ""] = resource or ""
        return kind == "Pod" or kind in _OTHER_KINDS


def _set_revision(metadata: ObjectMeta | None) -> ObjectMeta:
    """Return metadata with a resource version, which a file written by hand may lack; none is compared here."""
    return msgspec.structs.replace(metadata or ObjectMeta(), resource_version=_SOME_REVISION)


def read_snapshot_hours(
    folder: Path, namespace: str | None, grouping: Grouping, period: tuple[str | None, str | None]
) -> SnapshotHours:
    """Return the hours of a namespace, or of all, within the part of a period of which there are snapshots.

    Raises:
        UsageError: if the folder has fewer than two snapshots, a name without a time, or the period is empty.
        SnapshotError: if a file is not a snapshot.
    """
    series = _SnapshotSeries()
    for time, path in progress.track("reading snapshots", _list_snapshots(folder)):
        series.read(time, path)
    times = series.times
    first, last = _parse_period_time("--from", period[0]), _parse_period_time("--until", period[1])
    if first is not None and last is not None and first >= last:
        raise framework.UsageError(f"--from {period[0]} is not before --until {period[1]}: write an earlier time")
    begin, end = max(first or times[0], times[0]), min(last or times[-1], times[-1])
    if begin >= end:
        raise framework.UsageError(
            f"the snapshots are of {_format_seconds(times[0])} to {_format_seconds(times[-1])}: no time of the period "
            "is among them"
        )
    sums = HoursSums(grouping)
    for consumer in (*series.ended, *series.meter.list_timed(times[-1])):
        if namespace in {None, consumer.namespace}:
            sums.add_consumer(consumer, begin, end)
    gap = series.meter.pods.longest_gap
    longest = f"{len(times)} snapshots; the longest time between two is {format_duration(gap)}"
    notes = [
        f"{_format_seconds(begin)} to {_format_seconds(end)}, by {longest}",
        "a pod or claim that began and ended between two snapshots is counted only if a later one shows it",
    ]
    if series.without_claims:
        notes.append(f"{series.without_claims} of {len(times)} snapshots do not have the claims of their pods")
    return SnapshotHours(sums.list_hours(), (begin, end), len(times), gap, notes)


def _parse_period_time(option: str, text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return (parse_time(text) - _EPOCH) // _SECOND
    except TimeError as error:
        raise framework.UsageError(f"{option} {text}: {error}") from error


def _list_snapshots(folder: Path) -> list[tuple[int, Path]]:
    """Return the files of a folder with the times in their names, in order.

    Raises:
        UsageError: if it is no folder, has fewer than two files, a name has no time, or two have the same.
    """
    try:
        files = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    except OSError as error:
        raise framework.UsageError(f"--snapshots {folder}: cannot be read: {error.strerror}") from error
    by_time: dict[int, Path] = {}
    for path in files:
        time = _read_time_of_name(path)
        if time in by_time:
            raise framework.UsageError(f"{by_time[time]} and {path} are of the same time: remove one")
        by_time[time] = path
    if len(by_time) < 2:  # noqa: PLR2004  # a time between two
        found = "one snapshot" if by_time else "no snapshot"
        raise framework.UsageError(f"--snapshots {folder}: it has {found}, and two are needed")
    return sorted(by_time.items())


def _read_time_of_name(path: Path) -> int:
    match = _NAME_PATTERN.match(path.name)
    try:
        if match is not None and path.name[match.end() :][:1] in {"", "."}:
            return _read_seconds(f"{match[1]}T{match[2]}:{match[3]}:{match[4]}Z")
    except ValueError as error:
        raise framework.UsageError(f"{path}: {error}; {_NAME_ADVICE}") from error
    raise framework.UsageError(f"{path}: the name does not begin with a time; {_NAME_ADVICE}")


def _read_seconds(text: str) -> int:
    return (datetime.fromisoformat(text) - _EPOCH) // _SECOND


def _format_seconds(seconds: int) -> str:
    return format_time(datetime.fromtimestamp(seconds, UTC))
