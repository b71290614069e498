"""`python -m e2e.scheduling`: random cases put to the real scheduler; some six a second on two cores."""

import importlib
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from itertools import count
from pathlib import Path

import click

from e2e.errors import BuildError, ClusterError
from e2e.scheduling.api import RefusedError
from e2e.scheduling.asked import Asked, read, writing
from e2e.scheduling.asking import asker
from e2e.scheduling.compared import Answering, differences
from e2e.scheduling.draw.case import drawn
from e2e.scheduling.plane import plane
from e2e.scheduling.reasons import table
from webhook.cli.framework import EXIT_FINDINGS, EXIT_INTERNAL_ERROR, EXIT_USAGE_ERROR

_EVERY = 2.0  # seconds between words
_FILE = click.Path(dir_okay=False, path_type=Path)


class _Answering(click.ParamType[Answering]):
    """A function, as `package.module:function`."""

    name = "module:function"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Answering:
        module, _, function = str(value).partition(":")
        try:
            answering: Answering = getattr(importlib.import_module(module), function)
        except (ImportError, AttributeError, ValueError) as error:
            self.fail(f"{value}: {error}; give the function that answers, as package.module:function", param, ctx)
        return answering


@click.command()
@click.option("--cases", default=2000, show_default=True, help="How many.")
@click.option("--seed", default=1, show_default=True, help="What they are drawn from.")
@click.option("--out", type=_FILE, help="Write each as a line here.")
@click.option("--read", "file", type=_FILE, help="Ask nobody: take the cases of this file.")
@click.option("--compare", "answering", type=_Answering(), help="Print where this function says something else.")
def main(cases: int, seed: int, out: Path | None, file: Path | None, answering: Answering | None) -> None:
    """Draw clusters and pods, and ask the scheduler; progress on stderr.

    Exit code 1 when the compared function says something else.
    """
    results, differing = [], 0
    try:
        with ExitStack() as ends:
            write = ends.enter_context(writing(out)) if out else None
            for name, asked in read(file) if file else _asked(seed, cases):
                results.append(asked.result)
                if write:
                    write(asked.line(name))
                if answering and (found := list(differences(asked, answering))):
                    differing += 1
                    click.echo("\n  ".join((name, *found)))
    except ClusterError as error:
        click.echo(f"tallygate: {error}", err=True)
        sys.exit(EXIT_USAGE_ERROR if isinstance(error, BuildError) else EXIT_INTERNAL_ERROR)
    for line in table(results):
        click.echo(line)
    if answering:
        click.echo(f"\n{differing} of {len(results):,} cases differ")
    sys.exit(EXIT_FINDINGS if differing else 0)


def _asked(seed: int, cases: int) -> Iterator[tuple[str, Asked]]:
    """So many cases that the API server takes, by name."""
    click.echo("starting etcd, an API server and a scheduler …", err=True)
    with plane() as made, asker(made) as asked:
        done, begun, told = 0, time.monotonic(), 0.0
        for number in count():
            if done == cases:
                return
            with suppress(RefusedError):
                yield f"{seed}/{number}", asked.ask(drawn(seed, number))
                done += 1
            if (now := time.monotonic()) > told + _EVERY or done == cases:
                told = now
                click.echo(f"{done} of {cases} cases, {done / (now - begun):.1f} a second", err=True)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where a shell had it ignored
    main()
