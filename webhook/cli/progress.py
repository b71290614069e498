"""Progress: on a terminal, how far a long command has come. Short ones and pipes see nothing of it."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn

from webhook.cli.report.write import console

T = TypeVar("T")
_PATIENCE = 2.0
"""Seconds that a command may take before it says how far it is."""


def shown(doing: str, things: Sequence[T]) -> Iterator[T]:
    """Pass things on one by one; when that takes long, say on stderr how many are done."""
    with telling((TextColumn(doing), BarColumn(), MofNCompleteColumn()), len(things)) as tell:
        for done, thing in enumerate(things):
            tell(done)
            yield thing


def growing(doing: str, parts: Iterable[T], size: Callable[[T], int]) -> Iterator[T]:
    """Pass on parts of nobody knows how much; when that takes long, say on stderr how much has come."""
    with telling((TextColumn(doing), TextColumn("{task.completed:.0f}")), None) as tell:
        come = 0
        for part in parts:
            come += size(part)
            tell(come)
            yield part


def reading(names: Iterable[str]) -> Iterable[str]:
    """Progress over files."""
    return shown("reading files", list(names))


@contextmanager
def telling(columns: Sequence[ProgressColumn], total: int | None) -> Iterator[Callable[[int], None]]:
    """Takes how much is done; from when it has taken long, a terminal sees it."""
    bar = Progress(*columns, console=console(sys.stderr), transient=True)
    task, began, is_shown = bar.add_task("", total=total), time.monotonic(), False

    def tell(done: int) -> None:
        nonlocal is_shown
        bar.update(task, completed=done)
        if not is_shown and time.monotonic() - began > _PATIENCE and sys.stderr.isatty():
            is_shown = True
            bar.start()

    try:
        yield tell
    finally:
        if is_shown:
            bar.stop()
