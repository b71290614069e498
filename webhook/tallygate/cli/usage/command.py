"""The command `tallygate usage`: the limits of caps and their used, reserved and free amounts, once or repeatedly."""

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

import click
from click.core import ParameterSource
from rich.console import RenderableType
from rich.text import Text

from tallygate.admission.cap_index import CapIndex
from tallygate.answers import usage_report
from tallygate.answers.capacity_report import CAPACITIES, CapacityRecord, list_capacities
from tallygate.answers.columns import escape_control
from tallygate.answers.usage_columns import LIMITS, LINES, TOTALS, format_notes, format_scope
from tallygate.answers.usage_report import ExceededLimit, UsageLine, format_by_resource, format_time, may_count_devices
from tallygate.cli import framework, progress
from tallygate.cli.ask.gate_client import GateError
from tallygate.cli.ask.without_rights import announce, create_no_gate_error, is_forbidden, open_gate_instead
from tallygate.cli.completions import complete_cap
from tallygate.cli.connection import OPTION_FLAGS, Connection
from tallygate.cli.doctor.facts import Unavailable
from tallygate.cli.doctor.mounted_policies import read_gate_policies
from tallygate.cli.output import tables
from tallygate.cli.output.tables import FittedTable, format_bar
from tallygate.cli.sources.cluster_source import ClusterSource, StateNeeds
from tallygate.cli.sources.options import load_usable_policies, snapshot_option
from tallygate.cli.sources.resource_lists import ListError
from tallygate.cli.sources.snapshot_file import create_no_namespaces_error, format_snapshot_name
from tallygate.cli.sources.state_watch import watch_state
from tallygate.cli.usage.consumers import (
    ResourceConsumers,
    convert_consumers,
    format_shares,
    format_title,
    list_consumers,
)
from tallygate.cli.usage.hours import HoursQuery, print_hours
from tallygate.cli.usage.verify import DRIFTS, Drift, find_comparable_ledger, find_drift, find_incomparable
from tallygate.cluster.cluster_state import ClusterState
from tallygate.policy.model import PolicySet
from tallygate.policy.suggest import format_suggestion

T = TypeVar("T")
_WITHOUT_POLICIES = (
    "without them soft limits, groups and the namespaces of shared caps are not shown: name their files with --policies"
)
_INSTEAD = (
    "without this right `tallygate usage -n NAMESPACE` shows what the gate answers about one namespace, if its server "
    "of asks runs in the cluster; --explain, --verify, --watch, --policies, --group and -A need the right"
)
_MAX_PERCENT = 9_999
_STYLES = {ExceededLimit.NONE: "", ExceededLimit.SOFT: "yellow", ExceededLimit.HARD: "bold red"}
_VERIFY_ATTEMPTS = 4
_VERIFY_INTERVAL_SECONDS = 1.5
"""The pause between attempts. Drift is a difference in every attempt: a gate recounts within 1 to 2 s of a change."""


@dataclass(frozen=True, slots=True)
class UsageQuery:
    """The requested ledgers of a cluster, and the output format. Without caps, the ledgers themselves are shown.

    `policies_note` has the reason for which the policies are unknown, empty if they are known. `min_percent` leaves out
    the lines that are charged less of their hard limit. With `has_capacity` what is on nodes is compared.
    """

    source: ClusterSource
    policies: PolicySet
    choice: usage_report.LedgerChoice
    output: str
    policies_note: str = ""
    sort_key: usage_report.SortKey = usage_report.SortKey.CAP
    min_percent: int | None = None
    has_total: bool = False
    has_capacity: bool = False


@dataclass(frozen=True, slots=True)
class _UsageView(Generic[T]):
    """A view of the usage: `compute` returns a comparable value, and `render` prints it."""

    compute: Callable[[UsageQuery, ClusterState], T]
    render: Callable[[T, str], None]


def _index_caps(query: UsageQuery, cluster: ClusterState) -> CapIndex:
    return cluster.index_caps(query.policies, datetime.now(UTC))


def _compute_usage(query: UsageQuery, cluster: ClusterState) -> usage_report.UsageReport:
    caps = _index_caps(query, cluster)
    if not caps and cluster.ledgers.missing_reason:
        reason = cluster.ledgers.missing_reason
        advice = query.policies_note or "name their policy files with --policies"
        raise framework.UsageError(f"no caps are known: {advice} ({reason})")
    report = usage_report.compute_usage(cluster, caps, query.choice)
    notes = (query.policies_note, *report.notes) if query.policies_note else report.notes
    return _arrange_report(query, replace(report, notes=notes))


def _arrange_report(query: UsageQuery, report: usage_report.UsageReport) -> usage_report.UsageReport:
    """Return a report with the lines, in the order, and with the sums that are requested."""
    lines = tuple(usage_report.arrange_lines(report.lines, query.sort_key, query.min_percent))
    totals = tuple(usage_report.sum_lines(lines)) if query.has_total else ()
    return replace(report, lines=lines, totals=totals, is_narrowed=len(lines) < len(report.lines))


def _print_usage(report: usage_report.UsageReport, output: str) -> None:
    others = {"notes": list(report.notes), "unhealthy": [devices.to_dict() for devices in report.unhealthy]}
    if report.totals:
        others["totals"] = list(map(TOTALS.to_dict, report.totals))
    tables.print_records(LINES, "Usage", report.lines, output, lambda: _print_report(report), **others)


def _print_report(report: usage_report.UsageReport) -> None:
    if report.lines:
        _print_lines(report.lines)
        if report.totals:
            click.echo(f"\n{TOTALS.align(report.totals)}")
    elif report.is_narrowed:
        click.echo("no line is charged as much as --over names", err=True)
    else:
        click.echo(
            "no cap counts anything here" if report.has_caps else "no cap has a ledger for these namespaces", err=True
        )
    _print_notes((*report.notes, *format_by_resource(report.unhealthy)))


def _print_lines(lines: Sequence[usage_report.UsageLine]) -> None:
    if tables.create_console(sys.stdout).is_terminal:
        tables.print_content(_render_lines(lines))
    else:
        click.echo(LINES.align(lines))


def _render_lines(lines: Sequence[UsageLine]) -> RenderableType:
    """Return one paragraph per ledger, with bars and colours, for terminals; a narrow terminal shows no bars."""
    rows, titles = [], {}
    previous: UsageLine | None = None
    for number, line in enumerate(lines):
        if previous is None or _get_ledger(previous) != _get_ledger(line):
            titles[number] = _render_title(line)
        amounts = [column.format(line) for column in LIMITS]
        cells = (line.name, *amounts, _format_bar(line), format_notes(line))
        rows.append([Text(escape_control(cell), _STYLES[line.exceeded_limit]) for cell in cells])
        previous = line
    headings = ("RESOURCE", *(column.heading for column in LIMITS), "UTILIZATION", "")
    return FittedTable(headings, rows, ("UTILIZATION",), titles, indent=2)


def _get_ledger(line: UsageLine) -> tuple[str, str, str]:
    return line.cap, line.group, line.namespace


def _render_title(line: UsageLine) -> Text:
    counted_text = f", counted {format_time(line.counted_at)}" if line.counted_at else ""
    scope = escape_control(format_scope(line.namespace, line.members, line.group))
    return Text.assemble((f"{escape_control(line.cap)}  {scope}", "bold"), (counted_text, "dim"))


def _format_bar(line: UsageLine) -> str:
    """Return a bar of the used, reserved and free amounts of the hard limit."""
    if not line.hard or line.used is None or line.charged is None:
        return ""
    return format_bar(line.used, line.charged, line.hard)


@dataclass(frozen=True, slots=True)
class _CapacityReport:
    """The amounts that caps grant beside those of nodes, and the notes on them."""

    records: tuple[CapacityRecord, ...]
    notes: tuple[str, ...]


def _compute_capacity(query: UsageQuery, cluster: ClusterState) -> _CapacityReport:
    report, ledgers = usage_report.compute_usage_of_caps(cluster, _index_caps(query, cluster), query.choice)
    return _CapacityReport(tuple(list_capacities(cluster, ledgers)), report.notes)


def _print_capacity(report: _CapacityReport, output: str) -> None:
    def print_text() -> None:
        click.echo(CAPACITIES.align(report.records) if report.records else "no cap has a hard limit that is known")
        _print_notes(report.notes)

    tables.print_records(CAPACITIES, "UsageCapacity", report.records, output, print_text, notes=list(report.notes))


@dataclass(frozen=True, slots=True)
class _ConsumersReport:
    """The consumers of each resource of the chosen ledgers, and the notes on them."""

    resources: tuple[ResourceConsumers, ...]
    notes: tuple[str, ...]


def _compute_consumers(query: UsageQuery, cluster: ClusterState) -> _ConsumersReport:
    chosen_ledgers = _choose_ledgers(query, cluster)
    resources = tuple(
        consumers for chosen in chosen_ledgers for consumers in list_consumers(cluster, chosen, query.choice.namespace)
    )
    caps = _index_caps(query, cluster)
    notes = [*usage_report.list_ungrouped_namespaces(cluster, caps, query.choice), *cluster.list_unread(caps)]
    return _ConsumersReport(resources, (*notes, *usage_report.list_uncertain_devices(cluster, chosen_ledgers)))


def _print_consumers(report: _ConsumersReport, output: str) -> None:
    items = map(convert_consumers, report.resources)
    tables.print_list("Consumer", items, output, lambda: _print_shares(report), notes=list(report.notes))


def _print_shares(report: _ConsumersReport) -> None:
    for consumers in report.resources:
        click.secho(format_title(consumers), bold=True)
        click.echo(f"{format_shares(consumers)}\n")
    _print_notes(report.notes)


USAGE_VIEW = _UsageView(_compute_usage, _print_usage)
"""The table of usage. UsageError if no caps are known, or the requested one does not exist."""
CONSUMERS_VIEW = _UsageView(_compute_consumers, _print_consumers)
"""The pods and claims behind the numbers of a cap. UsageError without this cap, or if it omits the namespace."""
CAPACITY_VIEW = _UsageView(_compute_capacity, _print_capacity)
"""The amounts that caps grant beside those of nodes. UsageError if the requested cap does not exist."""


def show_once(query: UsageQuery, view: _UsageView[T]) -> None:
    """Show the view of the cluster at present.

    Raises:
        TallygateError: if the cluster cannot be read.
    """
    view.render(view.compute(query, _read_cluster(query)), query.output)


def _read_cluster(query: UsageQuery) -> ClusterState:
    """Return the cluster.

    Raises:
        UsageError: if the requested namespace does not exist.
        TallygateError: if the cluster cannot be read.
    """
    policies, name = query.policies, query.choice.namespace
    needs = StateNeeds(
        ledgers=True,
        nodes=query.has_capacity or may_count_devices(policies.caps) or policies.needs_nodes,
        slices=policies.needs_slices,
        columns=query.has_capacity,
    )
    cluster = query.source.read(needs)
    if query.source.snapshot and not len(cluster.namespaces):
        raise create_no_namespaces_error(query.source.snapshot)
    if name is not None and cluster.namespaces.find(name) is None:
        known = [namespace.name for namespace in cluster.namespaces.list_records()]
        place = format_snapshot_name(query.source.snapshot) if query.source.snapshot else "the cluster"
        raise framework.UsageError(f"namespace {name} does not exist in {place}{format_suggestion(name, known)}")
    return cluster


def show_changes(query: UsageQuery, view: _UsageView[T]) -> None:
    """Show the view, and again after each change, until the user interrupts.

    Raises:
        TallygateError: if the cluster cannot be read at the start.
    """
    observed = _read_cluster(query)
    previous: tuple[T, tuple[str, ...]] = (view.compute(query, observed), ())
    _show_again(query, view, *previous)
    with watch_state(query.source.connection.load(), observed) as cluster:
        for current, stale in cluster.iterate_changes():
            content = (view.compute(query, current), stale)
            if content != previous:
                _show_again(query, view, *content)
                previous = content


def _show_again(query: UsageQuery, view: _UsageView[T], content: T, stale: Sequence[str]) -> None:
    if query.output == "yaml":
        click.echo("---")
    elif query.output == "table":
        click.clear()  # does nothing without a terminal
        click.echo(time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
    view.render(content, query.output)
    _print_notes(stale)


def _print_notes(notes: Sequence[str]) -> None:
    for note in notes:
        click.echo(f"note: {escape_control(note)}", err=True)


def print_drift(query: UsageQuery) -> bool:
    """Print the numbers of ledgers that differ from pods and claims; return whether there is a difference.

    Raises:
        UsageError: if the cap does not exist, or the cluster has no ledgers.
    """
    comparison = _find_lasting_drift(query)
    drifts, ledgers = comparison.drifts, comparison.ledger_count
    tables.print_records(
        DRIFTS, "Drift", drifts, query.output, lambda: click.echo(DRIFTS.align(drifts)) if drifts else None
    )
    _print_notes(comparison.notes)
    result_text = {0: "no drift", 1: "1 number differs"}.get(len(drifts), f"{len(drifts)} numbers differ")
    click.echo(f"{ledgers} ledger{'s' * (ledgers != 1)} compared with the pods: {result_text}", err=True)
    return bool(drifts)


class _Comparison(NamedTuple):
    """The drifts, the number of compared ledgers, and the notes on what was not compared."""

    drifts: list[Drift]
    ledger_count: int
    notes: list[str]


def _find_lasting_drift(query: UsageQuery) -> _Comparison:
    """Return the last of several comparisons, with the drifts that every one of them finds."""
    comparison = _compare_once(query)
    for _ in range(0 if query.source.snapshot else _VERIFY_ATTEMPTS - 1):
        if not comparison.drifts:
            break
        time.sleep(_VERIFY_INTERVAL_SECONDS)
        latest = _compare_once(query)
        latest_drifts = frozenset(latest.drifts)
        comparison = latest._replace(drifts=[drift for drift in comparison.drifts if drift in latest_drifts])
    return comparison


def _compare_once(query: UsageQuery) -> _Comparison:
    cluster = _read_cluster(query)
    if cluster.ledgers.missing_reason:
        raise framework.UsageError(f"there are no ledgers to compare with the pods: {cluster.ledgers.missing_reason}")
    chosen = [ledger for ledger in _choose_ledgers(query, cluster) if find_comparable_ledger(cluster, ledger)]
    drifts = [drift for ledger in progress.track("comparing ledgers", chosen) for drift in find_drift(cluster, ledger)]
    return _Comparison(drifts, len(chosen), list(_describe_incomparable(cluster, chosen)))


def _describe_incomparable(cluster: ClusterState, chosen: Sequence[usage_report.ChosenLedger]) -> Iterator[str]:
    scopes: dict[tuple[str, str, str], list[str]] = {}
    for ledger in chosen:
        names_by_reason: dict[str, list[str]] = {}
        for name, reason in sorted(find_incomparable(cluster, ledger).items()):
            names_by_reason.setdefault(reason, []).append(name)
        for reason, names in names_by_reason.items():
            scopes.setdefault((ledger.active_cap.definition.name, ", ".join(names), reason), []).append(
                ledger.active_cap.group or ledger.key.namespace
            )
    ledger_counts = Counter(ledger.active_cap.definition.name for ledger in chosen)
    for (cap, counted, reason), namespaces in scopes.items():
        is_partial = len(namespaces) < ledger_counts[cap]
        scope = f" in namespace {usage_report.format_first_names(sorted(namespaces))}" if is_partial else ""
        yield f"{counted} of cap {cap} was not compared{scope}: {reason}"
    yield from usage_report.list_uncertain_devices(cluster, chosen)


def _choose_ledgers(query: UsageQuery, cluster: ClusterState) -> list[usage_report.ChosenLedger]:
    chosen = list(query.choice.list_ledgers(cluster, _index_caps(query, cluster)))
    if not chosen:
        scope = f"namespace {query.choice.namespace}" if query.choice.namespace else "any existing namespace"
        raise framework.UsageError(
            f"{f'cap {query.choice.cap} does not count' if query.choice.cap else 'no cap counts'} {scope}"
        )
    return chosen


@click.command(
    cls=framework.Command,
    examples=(
        ("tallygate usage --policies policies/", "every cap of these policies, in the cluster of your kubeconfig"),
        ("tallygate usage --policies policies/ -n team-a -w", "one namespace, and again after each change"),
        ("tallygate usage --over 80% --sort utilization", "what is nearly full, the fullest first"),
        ("tallygate usage --policies policies/ --explain gpus -n team-a", "the pods and claims behind an amount"),
        ("tallygate usage --policies policies/ --verify", "do the ledgers agree with the pods?"),
        ("tallygate usage --policies policies/ --capacity", "do the caps grant more, or less, than nodes have?"),
        ("tallygate usage --policies policies/ --snapshot now.json -o json", "a snapshot, for a program"),
        (
            "tallygate usage --hours --snapshots november/",
            "the GPU-hours of each namespace, from a series of snapshots",
        ),
    ),
)
@click.option(
    "--policies",
    metavar="PATH",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A policy file with caps, or a folder of them; may be given several times. Default: those of the gate in "
    "the cluster; if these cannot be read, the CapLedgers are shown.",
)
@click.option("--cap", metavar="NAME", shell_complete=complete_cap, help="Only this cap.")
@click.option("--group", metavar="VALUE", help="Only this group: the namespaces with this value of the label of a cap.")
@framework.namespace_option("Only the caps over this namespace. Default: all namespaces.")
@framework.all_namespaces_option("All namespaces, even with -n. This is the default.")
@click.option(
    "--explain",
    metavar="CAP",
    shell_complete=complete_cap,
    help="List the pods and claims behind the amounts of this cap: all, or those of the namespace that -n names.",
)
@click.option("--verify", is_flag=True, help="Compare the ledgers with the pods; exit code 1 when they differ.")
@click.option("-w", "--watch", is_flag=True, help="Print again when something changes, until Ctrl-C.")
@click.option(
    "--sort",
    "sort_key",
    type=click.Choice([key.value for key in usage_report.SortKey]),
    default=usage_report.SortKey.CAP.value,
    help="The order of the lines; used and utilization: the largest first, free: the smallest first.",
)
@click.option("--over", metavar="PERCENT", help="Only lines that are charged at least this share of hard, as in 80%.")
@click.option(
    "--capacity",
    is_flag=True,
    help="For each resource: the amount of the nodes, and how much of it the caps grant, which may be more or less.",
)
@click.option(
    "--hours",
    is_flag=True,
    help="Report how many hours pods and claims had devices, from a series of snapshots, or since the gate's server "
    "of asks started.",
)
@click.option(
    "--snapshots",
    metavar="FOLDER",
    type=click.Path(path_type=Path),
    help="For --hours: a folder of files of `tallygate snapshot`, named by their times, as in "
    "2026-12-01T000000Z.json.gz. It needs no cluster.",
)
@click.option(
    "--by",
    metavar="GROUP",
    help="The groups of --hours: namespace (the default), workload, or label=KEY for the values of a label of pods.",
)
@click.option(
    "--from", "begin", metavar="TIME", help="The beginning of the report; by default the first of --snapshots."
)
@click.option("--until", "end", metavar="TIME", help="The end of the report; by default the last of --snapshots.")
@click.option("--total", is_flag=True, help="Add the sums of each cap and resource over the lines.")
@framework.connection_options
@snapshot_option(
    "A file of `tallygate snapshot`, or of `kubectl get nodes,pods,namespaces -A -o json`, instead of a cluster."
)
@framework.data_option
@click.pass_context
def usage(  # noqa: PLR0913 -- one argument for each option
    ctx: click.Context,
    *,
    policies: tuple[Path, ...],
    cap: str | None,
    group: str | None,
    namespace: str | None,
    all_namespaces: bool,
    explain: str | None,
    verify: bool,
    watch: bool,
    sort_key: str,
    over: str | None,
    capacity: bool,
    hours: bool,
    snapshots: Path | None,
    by: str | None,
    begin: str | None,
    end: str | None,
    total: bool,
    connection: Connection,
    snapshot: Path | None,
    output: str,
) -> None:
    """Show the limits of every cap and the amounts that are used, reserved and free.

    The used and reserved amounts are from the gate's CapLedgers; COUNTED is the time of their last recount. If these
    are missing, as in a snapshot or if the gate has ledgers in memory, the used amounts are counted from the pods and
    claims for devices, and the reserved amounts are unknown. Terminating pods count until they are deleted. Nodes with
    unhealthy devices of a counted resource are named: no pod gets such a device, even if the cap has a free amount.
    Needed rights: list on pods, namespaces, CapLedgers, resourceclaims and deviceclasses, on nodes for unhealthy
    devices, and on resourceslices if a cap counts devices by attributes or capacities; with --watch also watch. Without
    --policies also get on the gate's webhook configurations, its Deployment and its ConfigMaps. For users who may not
    list namespaces and pods of the cluster, the gate answers about one namespace, if its server of asks runs in the
    cluster.

    With --hours it reads only a folder of snapshots, or calls the server of asks, which needs the right to list pods.

    Exit codes: 0 shown, 1 --verify found wrong ledgers, 2 a usage error, or the cluster cannot be read.
    """
    if hours:
        _check_hours(ctx, snapshots)
        return print_hours(HoursQuery(snapshots, connection, namespace, all_namespaces, by, begin, end, output))
    modes = {"--explain": bool(explain), "--verify": verify, "--watch": watch, "--capacity": capacity}
    _check_options(modes, cap=bool(cap), snapshot=bool(snapshot), of_hours=any((snapshots, by, begin, end)))
    source = ClusterSource(connection, snapshot)
    policy_set, unknown_reason = (_load_caps(policies), "") if policies else _find_caps(source)
    if not policy_set.caps:
        _check_without_caps({**modes, "--group": group is not None}, unknown_reason)
    query = UsageQuery(
        source,
        policy_set,
        usage_report.LedgerChoice(explain or cap, None if all_namespaces else namespace, group),
        output,
        f"{unknown_reason}; {_WITHOUT_POLICIES}" if unknown_reason else "",
        usage_report.SortKey(sort_key),
        _parse_percent(over),
        total,
        capacity,
    )
    show = show_changes if watch else show_once
    try:
        if verify:
            ctx.exit(framework.EXIT_FINDINGS if print_drift(query) else 0)
        elif explain:
            show(query, CONSUMERS_VIEW)
        elif capacity:
            show(query, CAPACITY_VIEW)
        else:
            show(query, USAGE_VIEW)
    except ListError as error:
        if any((explain, verify, watch, capacity, policies, group, all_namespaces)) or not is_forbidden(error):
            raise create_no_gate_error(error, _INSTEAD) from error
        _print_usage_of_gate(query, connection.choose_namespace(namespace), error)


_OPTIONS_OF_HOURS = frozenset({"hours", "snapshots", "by", "begin", "end", "namespace", "all_namespaces", "output"})


def _check_hours(ctx: click.Context, snapshots: Path | None) -> None:
    """Check the options of `--hours`, which reads no policies, and with a folder no cluster.

    Raises:
        UsageError: if another option is given.
    """
    allowed = _OPTIONS_OF_HOURS if snapshots is not None else _OPTIONS_OF_HOURS | OPTION_FLAGS.keys()
    for option in ctx.command.params:
        name = option.name or ""
        if name not in allowed and ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            among = " and --snapshots" if name in OPTION_FLAGS else ""
            raise framework.UsageError(f"--hours{among} cannot be combined with {option.opts[-1]}")


def _print_usage_of_gate(query: UsageQuery, namespace: str, error: ListError) -> None:
    """Print what the gate answers about a namespace.

    Raises:
        UsageError: if the gate does not answer, or the requested cap does not count the namespace.
    """
    from tallygate.cli.ask.gate_answers import read_usage  # noqa: PLC0415  it loads numpy, and is rarely needed

    gate = open_gate_instead(query.source.connection, error)
    announce(gate, f"about namespace {namespace}")
    try:
        report = read_usage(gate, namespace)
    except GateError as reason:
        raise framework.UsageError(f"{error}\nthe gate does not answer instead: {reason}") from reason
    lines = tuple(line for line in report.lines if query.choice.cap in {None, line.cap})
    if query.choice.cap and not lines:
        raise framework.UsageError(f"cap {query.choice.cap} does not count namespace {namespace}")
    _print_usage(_arrange_report(query, replace(report, lines=lines)), query.output)


def _parse_percent(text: str | None) -> int | None:
    """Return the number of a share such as 80%; the sign may be missing.

    Raises:
        UsageError: if the text is no whole number from 0 to 1,000.
    """
    if text is None:
        return None
    digits = text.removesuffix("%")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= len(str(_MAX_PERCENT))):
        raise framework.UsageError(f"--over {text}: write a whole number of percent, as in 80%")
    return int(digits)


def _load_caps(policies: tuple[Path, ...]) -> PolicySet:
    """Return the policies with their caps.

    Raises:
        UsageError: if the policies are not usable, or have no cap.
    """
    policy_set = load_usable_policies(policies)
    if not policy_set.caps:
        raise framework.UsageError(
            f"{', '.join(map(str, policies))}: there is no NamespaceCap; name files of caps with --policies, or "
            "leave it out to see the caps of the cluster"
        )
    return policy_set


def _find_caps(source: ClusterSource) -> tuple[PolicySet, str]:
    """Return the policies of the gate in the cluster, or none and the reason for which they are unknown.

    Raises:
        ClientConfigError: if the API server is not configured.
    """
    if source.snapshot:
        return PolicySet(), ""
    policy_set = read_gate_policies(source.connection.load())
    if isinstance(policy_set, Unavailable):
        return PolicySet(), f"the policies of the gate are unknown: {policy_set.reason}"
    return policy_set, "" if policy_set.caps else "the gate here has no policies with caps"


def _check_options(modes: Mapping[str, bool], *, cap: bool, snapshot: bool, of_hours: bool) -> None:
    """Check the options; those `of_hours` are for `--hours` alone.

    Raises:
        UsageError: if options contradict each other.
    """
    if of_hours:
        raise framework.UsageError("--snapshots, --by, --from and --until are for --hours: add it")
    if modes["--verify"] and (modes["--explain"] or modes["--watch"]):
        raise framework.UsageError("--verify cannot be combined with --explain or --watch")
    if modes["--explain"] and cap:
        raise framework.UsageError("--explain already names the cap: remove --cap")
    if modes["--capacity"] and (modes["--explain"] or modes["--verify"] or modes["--watch"]):
        raise framework.UsageError("--capacity cannot be combined with --explain, --verify or --watch")
    if modes["--watch"] and snapshot:
        raise framework.UsageError("--watch needs a cluster: a snapshot does not change")


def _check_without_caps(options: Mapping[str, bool], reason: str) -> None:
    """Check that no option needs caps.

    Raises:
        UsageError: if an option does; the text has the reason for which the caps are unknown.
    """
    for option, is_given in options.items():
        if option != "--watch" and is_given:
            cause = f"{reason}; " if reason else ""
            raise framework.UsageError(f"{option} needs caps: {cause}name their policy files with --policies")
