"""What `tallygate usage` is asked, and how it is answered: once, or again and again."""

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import click

from webhook.admission.capping import CapIndex
from webhook.cli import progress
from webhook.cli.cluster.following import following
from webhook.cli.cluster.seen import Seen
from webhook.cli.cluster.source import Source
from webhook.cli.command import Misuse
from webhook.cli.report import write
from webhook.cli.report.table import harmless
from webhook.cli.using import holders, table, verifying
from webhook.cli.using.choice import Choice, Chosen
from webhook.cli.using.holders import Behind
from webhook.cli.using.lines import Line, Usage, usage
from webhook.cli.using.verifying import Drift

T = TypeVar("T")
_LOOKS = 4
_BETWEEN_LOOKS_SECONDS = 1.5
"""What differs must do so in every look to be called drift: a gate counts anew within a second or two of a change."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of which cluster, and how it is to be printed. Without caps, the ledgers are asked."""

    source: Source
    caps: CapIndex
    choice: Choice
    output: str


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """One way to answer: `find` what is so, which can be compared, and `show` it."""

    find: Callable[[Asked, Seen], T]
    show: Callable[[T, str], None]


def _usage(asked: Asked, seen: Seen) -> Usage:
    if not asked.caps and seen.ledgers.absent:
        raise Misuse(f"no caps are known: name their policy files by --policies ({seen.ledgers.absent})")
    return usage(seen, asked.caps, asked.choice)


def _show_usage(found: Usage, output: str) -> None:
    if output != "table":
        write.show_data(table.data(found), output)
        return
    if found.lines:
        _show_lines(found.lines)
    else:
        click.echo("no cap counts anything here", err=True)
    _note(found.notes)


def _show_lines(lines: Sequence[Line]) -> None:
    if write.console(sys.stdout).is_terminal:
        write.show(table.paragraphs(lines))
    else:
        click.echo("\n".join(table.rows(lines)))


def _behind(asked: Asked, seen: Seen) -> list[Behind]:
    return [each for chosen in _chosen(asked, seen) for each in holders.behind(seen, chosen)]


def _show_behind(found: list[Behind], output: str) -> None:
    if output != "table":
        write.show_data([holders.data(each) for each in found], output)
        return
    for each in found:
        click.secho(holders.title(each), bold=True)
        click.echo("\n".join([*holders.rows(each), ""]))


USAGE = Answer(_usage, _show_usage)
"""The table of usage. Misuse where no caps are known, or not the one that is meant."""
EXPLANATION = Answer(_behind, _show_behind)
"""The pods behind the numbers of a cap. Misuse where there is no such cap, or it does not count the namespace."""


def once(asked: Asked, answer: Answer[T]) -> None:
    """Show what is there now.

    Raises:
        TallygateError: it cannot be found out.
    """
    answer.show(answer.find(asked, asked.source.read()), asked.output)


def watch(asked: Asked, answer: Answer[T]) -> None:
    """Show what is there, and again when that has changed; until somebody interrupts.

    Raises:
        TallygateError: at the beginning it cannot be found out.
    """
    seen = asked.source.read()
    before: tuple[T, tuple[str, ...]] = (answer.find(asked, seen), ())
    _show_anew(asked, answer, *before)
    with following(asked.source.connection(), seen.ledgers.closed) as cluster:
        for now, stale in cluster.changes():
            found = (answer.find(asked, now), stale)
            if found != before:
                _show_anew(asked, answer, *found)
                before = found


def _show_anew(asked: Asked, answer: Answer[T], found: T, stale: Sequence[str]) -> None:
    if asked.output == "yaml":
        click.echo("---")
    elif asked.output == "table":
        click.clear()  # only where there is a terminal
        click.echo(time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
    answer.show(found, asked.output)
    _note(stale)


def _note(notes: Sequence[str]) -> None:
    for note in notes:
        click.echo(f"note: {harmless(note)}", err=True)


def verify(asked: Asked) -> bool:
    """Print what ledgers say otherwise than pods; whether there is anything.

    Raises:
        Misuse: there is no such cap, or there are no ledgers.
    """
    drifts, ledgers = _drifts(asked)
    if asked.output != "table":
        write.show_data([verifying.data(each) for each in drifts], asked.output)
    elif drifts:
        click.echo("\n".join(verifying.render(drifts)))
    found = {0: "no drift", 1: "1 number differs"}.get(len(drifts), f"{len(drifts)} numbers differ")
    click.echo(f"{ledgers} ledger{'s' * (ledgers != 1)} compared with the pods: {found}", err=True)
    return bool(drifts)


def _drifts(asked: Asked) -> tuple[list[Drift], int]:
    """What differs in the same way in every one of several looks, and how many ledgers were looked at."""
    found, ledgers = _look(asked)
    for _ in range(0 if asked.source.snapshot else _LOOKS - 1):
        if not found:
            break
        time.sleep(_BETWEEN_LOOKS_SECONDS)
        again, ledgers = _look(asked)
        lasting = frozenset(again)
        found = [drift for drift in found if drift in lasting]
    return found, ledgers


def _look(asked: Asked) -> tuple[list[Drift], int]:
    seen = asked.source.read()
    if seen.ledgers.absent:
        raise Misuse(f"there are no ledgers to compare with the pods: {seen.ledgers.absent}")
    chosen = [each for each in _chosen(asked, seen) if verifying.comparable(seen, each)]
    return [
        drift for each in progress.shown("comparing ledgers", chosen) for drift in verifying.verify(seen, each)
    ], len(chosen)


def _chosen(asked: Asked, seen: Seen) -> list[Chosen]:
    chosen = list(asked.choice.of(seen, asked.caps))
    if not chosen:
        place = f"namespace {asked.choice.namespace}" if asked.choice.namespace else "any namespace that is there"
        raise Misuse(f"{f'cap {asked.choice.cap} does not count' if asked.choice.cap else 'no cap counts'} {place}")
    return chosen
