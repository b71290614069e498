"""Progress: on a terminal, how far a long command has come. Short ones and pipes see nothing of it."""

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from webhook.cli.report.write import console

T = TypeVar("T")
_PATIENCE = 2.0
"""Seconds that a command may take before it says how far it is."""


def shown(doing: str, things: Sequence[T]) -> Iterator[T]:
    """Pass things on one by one; when that takes long, say on stderr how many are done."""
    bar: Progress | None = None
    began = time.monotonic()
    try:
        for done, thing in enumerate(things):
            if bar is None and time.monotonic() - began > _PATIENCE and sys.stderr.isatty():
                bar = Progress(
                    TextColumn(doing), BarColumn(), MofNCompleteColumn(), console=console(sys.stderr), transient=True
                )
                bar.add_task(doing, total=len(things))
                bar.start()
            if bar is not None:
                bar.update(bar.task_ids[0], completed=done)
            yield thing
    finally:
        if bar is not None:
            bar.stop()


def reading(names: Iterable[str]) -> Iterable[str]:
    """Progress over files."""
    return shown("reading files", list(names))
