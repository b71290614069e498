"""Progress of long commands on a terminal. Short commands and pipes get no progress output."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn

from tallygate.cli.output.tables import create_console

T = TypeVar("T")
_SHOW_AFTER_SECONDS = 2.0
"""The seconds that a command may take before the terminal shows its progress."""


def track(description: str, items: Sequence[T]) -> Iterator[T]:
    """Yield the items; if that takes long, show the number of processed items on stderr."""
    with display_progress((TextColumn(description), BarColumn(), MofNCompleteColumn()), len(items)) as update:
        for done_count, item in enumerate(items):
            update(done_count)
            yield item


def track_size(description: str, parts: Iterable[T], get_size: Callable[[T], int]) -> Iterator[T]:
    """Yield parts of an unknown total size; if that takes long, show the processed size on stderr."""
    with display_progress((TextColumn(description), TextColumn("{task.completed:.0f}")), None) as update:
        done_size = 0
        for part in parts:
            done_size += get_size(part)
            update(done_size)
            yield part


def track_files(file_names: Iterable[str]) -> Iterable[str]:
    """Return the file names with progress on stderr."""
    return track("reading files", list(file_names))


@contextmanager
def display_progress(columns: Sequence[ProgressColumn], total: int | None) -> Iterator[Callable[[int], None]]:
    """Yield a function that takes the processed amount; after 2 s a terminal shows it."""
    bar = Progress(*columns, console=create_console(sys.stderr), transient=True)
    task, started_at, is_shown = bar.add_task("", total=total), time.monotonic(), False

    def update(done_count: int) -> None:
        nonlocal is_shown
        bar.update(task, completed=done_count)
        if not is_shown and time.monotonic() - started_at > _SHOW_AFTER_SECONDS and sys.stderr.isatty():
            is_shown = True
            bar.start()

    try:
        yield update
    finally:
        if is_shown:
            bar.stop()


class StderrProgress:
    """Messages about the input and progress bars on stderr (`tallygate.answers.pods_to_place.Progress`)."""

    def report(self, message: str) -> None:
        """Print a message."""
        click.echo(f"tallygate: {message}", err=True)

    def track(self, description: str, items: Sequence[T]) -> Iterator[T]:
        """Yield the items; if that takes long, show the number of processed items."""
        return track(description, items)
