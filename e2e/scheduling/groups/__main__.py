"""`python -m e2e.scheduling.groups`: drawn PodGroups for a real scheduler, compared with their predictions."""

import signal
import sys
from collections import Counter
from itertools import islice

import click

from e2e.scheduling.groups.comparison import find_differences, is_unknown
from e2e.scheduling.groups.drawn_groups import run_drawn_groups
from e2e.scheduling.groups.group_runner import RecordedGroup
from tallygate.cli.framework import EXIT_FINDINGS

_EVERY = 50  # groups between messages about the progress


@click.command()
@click.option("--cases", default=500, show_default=True, help="Number of cases.")
@click.option("--seed", default=1, show_default=True, help="Seed of the cases.")
def main(cases: int, seed: int) -> None:
    """Draw clusters with a PodGroup, run the scheduler on them, and print where the predictions differ.

    Exit code 1 if some differ.
    """
    different, unknown, outcomes = 0, 0, Counter[str]()
    for name, case in islice(run_drawn_groups(seed), cases):
        outcomes[_name_outcome(case)] += 1
        unknown += is_unknown(case)
        if lines := list(find_differences(case)):
            different += 1
            click.echo("\n  ".join((name, *lines)))
        if not outcomes.total() % _EVERY:
            click.echo(f"{outcomes.total()} of {cases} groups, {different} differ", err=True)
    click.echo(", ".join(f"{number} {outcome}" for outcome, number in outcomes.most_common()))
    click.echo(f"{different} of {cases:,} groups differ, {unknown} are unknown")
    sys.exit(EXIT_FINDINGS if different else 0)


def _name_outcome(case: RecordedGroup) -> str:
    placed = sum(bool(result.node) for result in case.results.values())
    if placed:
        return "bound whole" if placed == len(case.results) else "bound in part"
    return "refused" if any(result.message for result in case.results.values()) else "kept out of the queue"


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also if the shell ignores it
    main()
