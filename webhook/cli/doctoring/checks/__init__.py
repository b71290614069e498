"""The points, in the order in which they are told: each a pure function from what was gathered to what it comes to."""

from dataclasses import replace

from webhook.cli.doctoring.checks import (
    certificates,
    clocks,
    cluster,
    ledgers,
    locking,
    reach,
    registration,
    replicas,
    rights,
)
from webhook.cli.doctoring.facts import Facts
from webhook.cli.doctoring.verdict import Check, Result, Said

CHECKS: tuple[Check[Facts], ...] = (
    *registration.CHECKS,
    *reach.CHECKS,
    *certificates.CHECKS,
    *locking.CHECKS,
    *replicas.CHECKS,
    *ledgers.CHECKS,
    *rights.CHECKS,
    *clocks.CHECKS,
    *cluster.CHECKS,
)


def results(facts: Facts) -> list[Result]:
    """What every check comes to."""
    return [Result(check.name, check.title, _on_one_line(check.judge(facts))) for check in CHECKS]


def _on_one_line(said: Said) -> Said:
    """Whatever others have written into what is told."""
    return replace(said, reason=" ".join(said.reason.split()))
