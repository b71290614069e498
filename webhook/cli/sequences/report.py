"""Reports of sequences: for a person, and as data."""

from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from webhook.cli.report.table import harmless, table
from webhook.cli.sequences import describe
from webhook.cli.sequences.compare import Difference, told
from webhook.cli.sequences.play import Done, Played
from webhook.cli.sequences.world import Account
from webhook.policy.model import SourceLocation

_STYLES = {"ok": "green", "FAILED": "bold red"}


def page(played: Sequence[Played], *, verbose: bool) -> RenderableType:
    """One line a sequence; beneath it where it went wrong, and if `verbose` every step."""
    return Group(*(part for each in played for part in _parts(each, verbose=verbose)))


def summary(played: Sequence[Played], files: int) -> str:
    """`3 sequences in 2 files: 2 ok, 1 failed`."""
    failed = sum(each.failed is not None for each in played)
    said = [f"{number} {word}" for number, word in ((len(played) - failed, "ok"), (failed, "failed")) if number]
    return f"{_count(len(played), 'sequence')} in {_count(files, 'file')}: {', '.join(said)}"


def document(played: Sequence[Played]) -> dict[str, Any]:
    """The same for a program. A change of a key's meaning is a breaking one."""
    failed = sum(each.failed is not None for each in played)
    counts = {"sequences": len(played), "ok": len(played) - failed, "failed": failed}
    return {"sequences": [_sequence(each) for each in played], "summary": counts}


def _parts(played: Played, *, verbose: bool) -> Iterator[RenderableType]:
    word = "ok" if played.failed is None else "FAILED"
    name, place = harmless(played.sequence.name), harmless(_place(played.sequence.source))
    yield Text.assemble((f"{word:<8}", _STYLES[word]), name, "  ", (place, "dim"), overflow="fold")
    for done in played.done if verbose else ():
        yield Padding(_step(done), (0, 0, 0, 2))
    if played.failed is not None:
        yield Padding(_failure(played, played.failed), (0, 0, 0, 2))


def _step(done: Done) -> RenderableType:
    lines = [Text.assemble(f"{done.number}. {harmless(describe.action(done.step))}: {harmless(told(done.outcome))}")]
    lines += [Text(f"   {harmless(said)}", "dim") for said in _told_besides(done)]
    return Group(*lines)


def _told_besides(done: Done) -> Iterator[str]:
    outcome = done.outcome
    yield from (f"warning: {each}" for each in outcome.warnings)
    yield from (f"filled in: {field}: {value}" for field, value in outcome.filled.items())
    if outcome.made or outcome.missing:
        yield f"pods: {outcome.made} made, {outcome.missing} missing"
    yield from (f"event: {each}" for each in outcome.events)
    yield from (f"ledger {which}: {amounts}" for which, amounts in describe.ledgers(done.accounts))


def _failure(played: Played, done: Done) -> RenderableType:
    head = f"{_place(done.step.source)}: step {done.number}: {describe.action(done.step)}"
    rows = [row for each in done.differences for row in _rows(each)]
    rows += [("event", each) for each in done.outcome.events]
    rows += [("ledger", f"{which}: {amounts}") for which, amounts in describe.ledgers(done.accounts)]
    left = len(played.sequence.steps) - done.number
    rows += [("then", f"{_count(left, 'step')} not played")] if left else []
    shown = table(("", ""), rows)
    shown.show_header = False
    return Group(Text(harmless(head), "bold", overflow="fold"), Padding(shown, (0, 0, 0, 2)))


def _rows(difference: Difference) -> Iterator[tuple[str, str]]:
    yield "expected", f"{difference.what} {difference.expected}"
    yield "happened", difference.happened


def _place(source: SourceLocation) -> str:
    return f"{source.file}:{source.line}:{source.column}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _sequence(played: Played) -> dict[str, Any]:
    source = played.sequence.source
    return {
        "name": played.sequence.name,
        "file": source.file,
        "line": source.line,
        "column": source.column,
        "ok": played.failed is None,
        "steps": [_done(done) for done in played.done],
        "notPlayed": len(played.sequence.steps) - len(played.done),
    }


def _done(done: Done) -> dict[str, Any]:
    outcome = done.outcome
    return {
        "step": done.number,
        "line": done.step.source.line,
        "column": done.step.source.column,
        "action": describe.action(done.step),
        "namespace": done.step.namespace,
        "user": done.step.user.name,
        "verdict": outcome.verdict.value,
        "by": outcome.by,
        "codes": list(outcome.codes),
        "message": outcome.message,
        "warnings": list(outcome.warnings),
        "filled": dict(outcome.filled),
        "pods": {"made": outcome.made, "missing": outcome.missing},
        "events": list(outcome.events),
        "ledgers": [_account(account) for account in done.accounts],
        "differences": [
            {"what": each.what, "expected": each.expected, "happened": each.happened} for each in done.differences
        ],
    }


def _account(account: Account) -> dict[str, Any]:
    names = sorted(account.counted.resources)
    return {
        "cap": account.counted.definition.name,
        "namespace": account.namespace,
        "open": not account.ledger.initializer,
        "held": {name: account.ledger.used.get(name, 0) for name in names},
        "promised": {name: account.ledger.reserved.get(name, 0) for name in names},
        "free": {name: free for name in names if (free := account.free(name)) is not None},
    }
