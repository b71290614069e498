"""`python -m e2e.scheduling`: random cases for the real scheduler; some six a second on two cores."""

import importlib
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from itertools import count
from pathlib import Path

import click

from e2e.errors import BuildError, ClusterError
from e2e.scheduling.api import RejectedError
from e2e.scheduling.case_runner import create_case_runner
from e2e.scheduling.comparison import Implementation, find_differences
from e2e.scheduling.draw.case import draw_case, draw_device_case
from e2e.scheduling.draw.cluster_parts import DrawnCase
from e2e.scheduling.plane import plane
from e2e.scheduling.reasons import table
from e2e.scheduling.recorded_case import RecordedCase, open_case_writer, read_cases
from tallygate.cli.framework import EXIT_FINDINGS, EXIT_INTERNAL_ERROR, EXIT_USAGE_ERROR

_EVERY = 2.0  # seconds between progress messages
_FILE = click.Path(dir_okay=False, path_type=Path)


class _ImplementationType(click.ParamType[Implementation]):
    """The parameter type of a function, as `package.module:function`."""

    name = "module:function"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Implementation:
        module, _, function = str(value).partition(":")
        try:
            implementation: Implementation = getattr(importlib.import_module(module), function)
        except (ImportError, AttributeError, ValueError) as error:
            self.fail(f"{value}: {error}; give a function as package.module:function", param, ctx)
        return implementation


@click.command()
@click.option("--cases", default=2000, show_default=True, help="Number of cases.")
@click.option("--seed", default=1, show_default=True, help="Seed of the cases.")
@click.option("--devices", is_flag=True, help="Draw devices, too.")
@click.option("--out", type=_FILE, help="Write each case as a line to this file.")
@click.option("--read", "file", type=_FILE, help="Use the recorded cases of this file, without a scheduler.")
@click.option(
    "--compare",
    "implementation",
    type=_ImplementationType(),
    help="Print the differences to the results of this function.",
)
def main(  # noqa: PLR0913 -- the options
    *,
    cases: int,
    seed: int,
    devices: bool,
    out: Path | None,
    file: Path | None,
    implementation: Implementation | None,
) -> None:
    """Draw clusters and pods, and run the scheduler on them; progress on stderr.

    Exit code 1 if the compared function has other results.
    """
    results, different = [], 0
    try:
        with ExitStack() as stack:
            write = stack.enter_context(open_case_writer(out)) if out else None
            for name, case in (
                read_cases(file) if file else _run_cases(seed, cases, draw_device_case if devices else draw_case)
            ):
                results.append(case.result)
                if write:
                    write(case.to_line(name))
                if implementation and (lines := list(find_differences(case, implementation))):
                    different += 1
                    click.echo("\n  ".join((name, *lines)))
    except ClusterError as error:
        click.echo(f"tallygate: {error}", err=True)
        sys.exit(EXIT_USAGE_ERROR if isinstance(error, BuildError) else EXIT_INTERNAL_ERROR)
    for line in table(results):
        click.echo(line)
    if implementation:
        click.echo(f"\n{different} of {len(results):,} cases differ")
    sys.exit(EXIT_FINDINGS if different else 0)


def _run_cases(seed: int, cases: int, draw: Callable[[int, int], DrawnCase]) -> Iterator[tuple[str, RecordedCase]]:
    """Yield the given number of cases that the API server accepts, by name."""
    click.echo("starting etcd, an API server and a scheduler …", err=True)
    with plane() as running, create_case_runner(running) as runner:
        done, started_at, reported_at = 0, time.monotonic(), 0.0
        for number in count():
            if done == cases:
                return
            with suppress(RejectedError):
                yield f"{seed}/{number}", runner.run(draw(seed, number))
                done += 1
            if (now := time.monotonic()) > reported_at + _EVERY or done == cases:
                reported_at = now
                click.echo(f"{done} of {cases} cases, {done / (now - started_at):.1f} a second", err=True)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also if the shell ignores it
    main()
