"""`tallygate usage --hours`: a report of the hours for which pods and claims had devices.

It is of a folder of snapshots, or of the time since the gate's server of asks began to watch the cluster.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import click

from tallygate.answers.columns import escape_control
from tallygate.answers.device_hours import GROUPINGS, DeviceHours, Grouping, create_columns, parse_grouping
from tallygate.answers.usage_report import format_time
from tallygate.cli import framework
from tallygate.cli.ask.gate_address import NoGateError, create_gate_options
from tallygate.cli.ask.gate_client import GateError, open_gate
from tallygate.cli.connection import Connection
from tallygate.cli.output import tables
from tallygate.cli.usage.hours_of_snapshots import read_snapshot_hours

_FORBIDDEN, _NOT_FOUND = 403, 404
_INSTEAD = (
    "without --snapshots the gate's server of asks answers --hours, since its start (docs/operate/ask.md). Or take "
    "snapshots at intervals, and name their folder with --snapshots"
)


class HoursQuery(NamedTuple):
    """The folder of snapshots or the connection to a cluster, the groups and the period as they are written.

    Without a `namespace` the report is of all, and where the user may not see all, of his default one; of all in any
    case with `is_of_all`.
    """

    folder: Path | None
    connection: Connection
    namespace: str | None
    is_of_all: bool
    by: str | None
    begin: str | None
    end: str | None
    output: str

    @property
    def written_by(self) -> str:
        """The groups, by default namespaces."""
        return self.by or "namespace"


class HoursReport(NamedTuple):
    """The sums of a period, with remarks; `snapshots` is the number of those that were read, None for none."""

    begin: datetime
    end: datetime
    records: Sequence[DeviceHours]
    longest_gap: int
    notes: Sequence[str]
    snapshots: int | None = None


def print_hours(query: HoursQuery) -> None:
    """Print the report.

    Raises:
        UsageError: if the options cannot be combined, the folder has fewer than two snapshots or a name without a time,
            the period is empty, or the gate does not answer.
        SnapshotError: if a file is not a snapshot.
    """
    grouping = parse_grouping(query.written_by)
    if grouping is None:
        raise framework.UsageError(f"--by {query.written_by}: write {GROUPINGS}")
    report = _read_snapshots(query, grouping) if query.folder is not None else _ask_gate(query)
    columns = create_columns(grouping)

    def print_text() -> None:
        click.echo(columns.align(report.records) if report.records else "no pod or claim had devices")
        for note in report.notes:
            click.echo(f"note: {escape_control(note)}", err=True)

    others = {
        "from": format_time(report.begin),
        "until": format_time(report.end),
        "snapshots": report.snapshots,
        "longestGapSeconds": report.longest_gap,
        "notes": list(report.notes),
    }
    tables.print_records(columns, "UsageHours", report.records, query.output, print_text, **others)


def _read_snapshots(query: HoursQuery, grouping: Grouping) -> HoursReport:
    assert query.folder is not None  # noqa: S101  # the caller looks
    namespace = None if query.is_of_all else query.namespace
    hours = read_snapshot_hours(query.folder, namespace, grouping, (query.begin, query.end))
    begin, end = (datetime.fromtimestamp(seconds, UTC) for seconds in hours.period)
    return HoursReport(begin, end, hours.records, hours.longest_gap, hours.notes, hours.snapshots)


def _ask_gate(query: HoursQuery) -> HoursReport:
    """Return the report of the server of asks.

    Raises:
        UsageError: if it cannot be found, or gives no answer.
    """
    from tallygate.cli.ask.gate_answers import read_hours  # noqa: PLC0415  it loads numpy, and is rarely needed

    if query.begin is not None or query.end is not None:
        raise framework.UsageError("--from and --until choose a part of --snapshots: name their folder")
    try:
        gate = open_gate(query.connection, create_gate_options())
        namespace = "" if query.is_of_all else query.namespace or ""
        try:
            answer = read_hours(gate, namespace, query.written_by)
        except GateError as error:
            if error.status != _FORBIDDEN or query.is_of_all or namespace:
                raise
            namespace = query.connection.choose_namespace(None)
            answer = read_hours(gate, namespace, query.written_by)
            click.echo(f"tallygate: you may not list all pods: this is namespace {namespace}", err=True)
    except NoGateError as error:
        raise framework.UsageError(f"{error}\n{_INSTEAD}") from error
    except GateError as error:
        raise framework.UsageError(_explain(error)) from error
    records = [item.to_hours() for item in answer.items]
    return HoursReport(answer.since, answer.until, records, answer.longest_gap_seconds, answer.notes)


def _explain(error: GateError) -> str:
    if error.status == _NOT_FOUND:
        return f"{error}\nan older server of asks has no hours: {_INSTEAD}"
    return f"the gate does not answer about hours: {error}\n{_INSTEAD}"
