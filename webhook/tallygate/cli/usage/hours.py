"""`tallygate usage --hours`: a report of the hours for which pods had devices, from a folder of snapshots."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import click
import msgspec

from tallygate.accounting.names import is_extended
from tallygate.accounting.pod_requests import compute_pod_requests
from tallygate.accounting.quantity_parser import QuantityError
from tallygate.answers.columns import escape_control
from tallygate.answers.device_hours import DeviceHours, Grouping, HoursMeter, SeenPod, create_columns
from tallygate.answers.usage_report import format_time
from tallygate.cli import framework, progress
from tallygate.cli.output import tables
from tallygate.cli.sources.snapshot_file import read_items
from tallygate.cluster.consumer_sums import find_owner
from tallygate.objects.core import Pod
from tallygate.objects.meta import StringMap
from tallygate.policy.times import TimeError, parse_time

_ENDED_PHASES = frozenset({"Succeeded", "Failed"})
_NAME_PATTERN = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})T([0-9]{2}):?([0-9]{2}):?([0-9]{2})Z", re.ASCII)
_NAME_ADVICE = 'name it by the time, as `tallygate snapshot "$(date -u +%Y-%m-%dT%H%M%SZ).json.gz"` does'
_OTHER_KINDS = frozenset({"Node", "Namespace"})
_BY_LABEL = "label="


class _Terminated(msgspec.Struct, rename="camel", frozen=True):
    finished_at: str | None = None


class _ContainerState(msgspec.Struct, frozen=True):
    terminated: _Terminated | None = None


class _ContainerTimes(msgspec.Struct, frozen=True):
    state: _ContainerState | None = None


class _PodTimes(msgspec.Struct, rename="camel", frozen=True):
    start_time: str | None = None
    container_statuses: list[_ContainerTimes] | None = None
    init_container_statuses: list[_ContainerTimes] | None = None


class _TimedPod(msgspec.Struct, frozen=True):
    status: _PodTimes | None = None


_POD_DECODER = msgspec.json.Decoder(Pod)
_TIMES_DECODER = msgspec.json.Decoder(_TimedPod)
_EPOCH, _SECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(seconds=1)
_NO_LABELS: StringMap = {}


class HoursQuery(NamedTuple):
    """The folder of snapshots, the groups as they are written, the period as it is written, and the output format."""

    folder: Path
    by: str
    begin: str | None
    end: str | None
    output: str


class _Reading(NamedTuple):
    """The pods of one snapshot that have extended resources and a node, and the number of those with claims."""

    pods: dict[str, SeenPod]
    claiming: set[str]


def print_hours(query: HoursQuery) -> None:
    """Print the report.

    Raises:
        UsageError: if the folder has fewer than two snapshots, a name without a time, or the period is empty.
        SnapshotError: if a file is not a snapshot.
    """
    grouping = _parse_grouping(query.by)
    meter, claiming = HoursMeter(), set[str]()
    for time, path in progress.track("reading snapshots", _list_snapshots(query.folder)):
        reading = _read_pods(path)
        meter.add_snapshot(time, reading.pods.values())
        claiming |= reading.claiming
    begin = max(_parse_period_time("--from", query.begin) or meter.times[0], meter.times[0])
    end = min(_parse_period_time("--until", query.end) or meter.times[-1], meter.times[-1])
    if begin >= end:
        raise framework.UsageError(
            f"the snapshots are of {_format_seconds(meter.times[0])} to {_format_seconds(meter.times[-1])}: no time of "
            "the period is among them"
        )
    records = meter.sum_hours(grouping, begin, end)
    _print_records(query, grouping, records, meter, (begin, end), len(claiming))


def _print_records(  # noqa: PLR0913, PLR0917  # the parts of one report
    query: HoursQuery,
    grouping: Grouping,
    records: Sequence[DeviceHours],
    meter: HoursMeter,
    period: tuple[int, int],
    claiming: int,
) -> None:
    columns, gap = create_columns(grouping), meter.find_longest_gap()
    first, last = map(_format_seconds, period)
    notes = [
        f"{first} to {last}, by {len(meter.times)} snapshots; the longest time between two is {_format_gap(gap)}",
        "a pod that began and ended between two snapshots is counted only if a later one shows it",
    ]
    if claiming:
        notes.append(f"claims for devices are not counted: {claiming} pod{'s' * (claiming != 1)} had some")

    def print_text() -> None:
        click.echo(columns.align(records) if records else "no pod had an extended resource")
        for note in notes:
            click.echo(f"note: {escape_control(note)}", err=True)

    others = {
        "from": first,
        "until": last,
        "snapshots": len(meter.times),
        "longestGapSeconds": gap,
        "notes": notes,
    }
    tables.print_records(columns, "UsageHours", records, query.output, print_text, **others)


def _parse_grouping(text: str) -> Grouping:
    """Return the groups that `--by` names.

    Raises:
        UsageError: if it is neither namespace, workload nor label=KEY.
    """
    if text.startswith(_BY_LABEL) and len(text) > len(_BY_LABEL):
        return Grouping(label=text.removeprefix(_BY_LABEL))
    if text not in {"namespace", "workload"}:
        raise framework.UsageError(f"--by {text}: write namespace, workload or label=KEY")
    return Grouping(by_workload=text == "workload")


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


def _read_pods(path: Path) -> _Reading:
    reading = _Reading({}, set())

    def handle(kind: str, item: msgspec.Raw) -> bool:
        if kind == "Pod":
            _add_pod(reading, _POD_DECODER.decode(item), _TIMES_DECODER.decode(item).status or _PodTimes())
        return kind == "Pod" or kind in _OTHER_KINDS

    return read_items(path, handle, lambda _: reading)


def _add_pod(reading: _Reading, pod: Pod, times: _PodTimes) -> None:
    """Add a pod that has a node and devices.

    Raises:
        ValueError: if it has no UID, or a time is no time.
        QuantityError: if an amount is invalid.
    """
    metadata, spec = pod.metadata, pod.spec
    if spec is None or not spec.node_name:
        return
    if metadata is None or not metadata.uid:
        raise ValueError("a pod without uid")
    if spec.resource_claims:
        reading.claiming.add(metadata.uid)
    amounts = _find_amounts(pod)
    if not amounts:
        return
    has_ended = pod.status is not None and pod.status.phase in _ENDED_PHASES
    reading.pods[metadata.uid] = SeenPod(
        metadata.uid,
        metadata.namespace or "",
        find_owner(pod) or f"Pod {metadata.name}",
        metadata.labels or _NO_LABELS,
        amounts,
        _read_optional(metadata.creation_timestamp),
        _read_optional(times.start_time),
        has_ended,
        _find_end(times) if has_ended else None,
    )


def _find_amounts(pod: Pod) -> Mapping[str, int]:
    """Return the extended resources that a pod requests.

    Raises:
        QuantityError: if an amount is invalid.
    """
    if pod.spec is None:
        raise QuantityError("a pod without a spec")
    quantities = compute_pod_requests(pod.spec).quantities
    return {name: quantity.value() for name, quantity in quantities.items() if is_extended(name) and quantity.sign > 0}


def _find_end(times: _PodTimes) -> int | None:
    """Return the end of the last container, None if one of them has none."""
    statuses = [*(times.init_container_statuses or ()), *(times.container_statuses or ())]
    ends = [_read_optional(_get_finish(status)) for status in statuses]
    known = [end for end in ends if end is not None]
    return max(known) if known and len(known) == len(ends) else None


def _get_finish(status: _ContainerTimes) -> str | None:
    terminated = status.state.terminated if status.state else None
    return terminated.finished_at if terminated else None


def _read_optional(text: str | None) -> int | None:
    """Return a time, None without one; a kubelet that lost a container writes the year 1."""
    seconds = _read_seconds(text) if text else 0
    return seconds if seconds > 0 else None


def _read_seconds(text: str) -> int:
    """Return a time of Kubernetes in seconds since 1970.

    Raises:
        ValueError: if it is no time with a zone.
    """
    time = datetime.fromisoformat(text)
    if time.tzinfo is None:
        raise ValueError(f"{text} is a time without a zone")
    return (time - _EPOCH) // _SECOND


def _format_seconds(seconds: int) -> str:
    return format_time(datetime.fromtimestamp(seconds, UTC))


def _format_gap(seconds: int) -> str:
    hours, rest = divmod(seconds, 3600)
    return f"{hours} h {rest // 60} min" if hours else f"{rest // 60} min {rest % 60} s"
