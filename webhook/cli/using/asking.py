"""What `tallygate usage` is asked, and how it is answered: once, or again and again."""

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import click

from webhook.admission.cap_index import CapIndex
from webhook.cli import progress
from webhook.cli.cluster.following import watch_cluster
from webhook.cli.cluster.seen import ObservedCluster
from webhook.cli.cluster.source import ClusterSource
from webhook.cli.command import UsageError
from webhook.cli.report import write
from webhook.cli.report.table import escape_control
from webhook.cli.using import holders, table, verifying
from webhook.cli.using.choice import ChosenLedger, LedgerChoice
from webhook.cli.using.holders import ResourceConsumers
from webhook.cli.using.lines import UsageLine, UsageReport, compute_usage
from webhook.cli.using.verifying import Drift

T = TypeVar("T")
_VERIFY_ATTEMPTS = 4
_VERIFY_INTERVAL_SECONDS = 1.5
"""What differs must do so in every look to be called drift: a gate counts anew within a second or two of a change."""


@dataclass(frozen=True, slots=True)
class UsageQuery:
    """What is asked of which cluster, and how it is to be printed. Without caps, the ledgers are asked."""

    source: ClusterSource
    caps: CapIndex
    choice: LedgerChoice
    output: str


@dataclass(frozen=True, slots=True)
class _UsageView(Generic[T]):
    """One way to answer: `find` what is so, which can be compared, and `show` it."""

    compute: Callable[[UsageQuery, ObservedCluster], T]
    render: Callable[[T, str], None]


def _compute_usage(query: UsageQuery, cluster: ObservedCluster) -> UsageReport:
    if not query.caps and cluster.ledgers.missing_reason:
        raise UsageError(f"no caps are known: name their policy files by --policies ({cluster.ledgers.missing_reason})")
    return compute_usage(cluster, query.caps, query.choice)


def _print_usage(report: UsageReport, output: str) -> None:
    if output != "table":
        write.print_data(table.convert_report(report), output)
        return
    if report.lines:
        _print_lines(report.lines)
    else:
        click.echo("no cap counts anything here", err=True)
    _print_notes(report.notes)


def _print_lines(lines: Sequence[UsageLine]) -> None:
    if write.create_console(sys.stdout).is_terminal:
        write.print_content(table.render_lines(lines))
    else:
        click.echo("\n".join(table.format_rows(lines)))


def _compute_consumers(query: UsageQuery, cluster: ObservedCluster) -> list[ResourceConsumers]:
    return [
        consumers for chosen in _choose_ledgers(query, cluster) for consumers in holders.list_consumers(cluster, chosen)
    ]


def _print_consumers(consumers_by_resource: list[ResourceConsumers], output: str) -> None:
    if output != "table":
        write.print_data([holders.convert_consumers(each) for each in consumers_by_resource], output)
        return
    for consumers in consumers_by_resource:
        click.secho(holders.format_title(consumers), bold=True)
        click.echo("\n".join([*holders.format_rows(consumers), ""]))


USAGE_VIEW = _UsageView(_compute_usage, _print_usage)
"""The table of usage. Misuse where no caps are known, or not the one that is meant."""
CONSUMERS_VIEW = _UsageView(_compute_consumers, _print_consumers)
"""The pods behind the numbers of a cap. Misuse where there is no such cap, or it does not count the namespace."""


def show_once(query: UsageQuery, view: _UsageView[T]) -> None:
    """Show what is there now.

    Raises:
        TallygateError: it cannot be found out.
    """
    view.render(view.compute(query, query.source.read()), query.output)


def show_changes(query: UsageQuery, view: _UsageView[T]) -> None:
    """Show what is there, and again when that has changed; until somebody interrupts.

    Raises:
        TallygateError: at the beginning it cannot be found out.
    """
    observed = query.source.read()
    previous: tuple[T, tuple[str, ...]] = (view.compute(query, observed), ())
    _show_again(query, view, *previous)
    with watch_cluster(query.source.connect(), observed.ledgers.unavailable_reason) as cluster:
        for current, stale in cluster.iterate_changes():
            content = (view.compute(query, current), stale)
            if content != previous:
                _show_again(query, view, *content)
                previous = content


def _show_again(query: UsageQuery, view: _UsageView[T], content: T, stale: Sequence[str]) -> None:
    if query.output == "yaml":
        click.echo("---")
    elif query.output == "table":
        click.clear()  # only where there is a terminal
        click.echo(time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
    view.render(content, query.output)
    _print_notes(stale)


def _print_notes(notes: Sequence[str]) -> None:
    for note in notes:
        click.echo(f"note: {escape_control(note)}", err=True)


def print_drift(query: UsageQuery) -> bool:
    """Print what ledgers say otherwise than pods; whether there is anything.

    Raises:
        Misuse: there is no such cap, or there are no ledgers.
    """
    drifts, ledgers = _find_lasting_drift(query)
    if query.output != "table":
        write.print_data([verifying.convert_drift(each) for each in drifts], query.output)
    elif drifts:
        click.echo("\n".join(verifying.format_drift(drifts)))
    result_text = {0: "no drift", 1: "1 number differs"}.get(len(drifts), f"{len(drifts)} numbers differ")
    click.echo(f"{ledgers} ledger{'s' * (ledgers != 1)} compared with the pods: {result_text}", err=True)
    return bool(drifts)


def _find_lasting_drift(query: UsageQuery) -> tuple[list[Drift], int]:
    """What differs in the same way in every one of several looks, and how many ledgers were looked at."""
    drifts, ledgers = _find_drift_once(query)
    for _ in range(0 if query.source.snapshot else _VERIFY_ATTEMPTS - 1):
        if not drifts:
            break
        time.sleep(_VERIFY_INTERVAL_SECONDS)
        latest, ledgers = _find_drift_once(query)
        latest_drifts = frozenset(latest)
        drifts = [drift for drift in drifts if drift in latest_drifts]
    return drifts, ledgers


def _find_drift_once(query: UsageQuery) -> tuple[list[Drift], int]:
    cluster = query.source.read()
    if cluster.ledgers.missing_reason:
        raise UsageError(f"there are no ledgers to compare with the pods: {cluster.ledgers.missing_reason}")
    chosen = [each for each in _choose_ledgers(query, cluster) if verifying.find_comparable_ledger(cluster, each)]
    return [
        drift for each in progress.track("comparing ledgers", chosen) for drift in verifying.find_drift(cluster, each)
    ], len(chosen)


def _choose_ledgers(query: UsageQuery, cluster: ObservedCluster) -> list[ChosenLedger]:
    chosen = list(query.choice.list_ledgers(cluster, query.caps))
    if not chosen:
        scope = f"namespace {query.choice.namespace}" if query.choice.namespace else "any namespace that is there"
        raise UsageError(f"{f'cap {query.choice.cap} does not count' if query.choice.cap else 'no cap counts'} {scope}")
    return chosen
