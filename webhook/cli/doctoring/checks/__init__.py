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
from webhook.cli.doctoring.facts import GateFacts
from webhook.cli.doctoring.verdict import Check, CheckReport, CheckResult

CHECKS: tuple[Check[GateFacts], ...] = (
    *registration.CHECKS,
    *reach.CHECKS,
    *certificates.CHECKS,
    *locking.CHECKS,
    *replicas.CHECKS,
    *ledgers.CHECKS,
    *rights.PERMISSION_CHECKS,
    *clocks.CLOCK_CHECKS,
    *cluster.CHECKS,
)


def run_checks(facts: GateFacts) -> list[CheckReport]:
    """What every check comes to."""
    return [CheckReport(check.name, check.title, _collapse_whitespace(check.run(facts))) for check in CHECKS]


def _collapse_whitespace(result: CheckResult) -> CheckResult:
    """Whatever others have written into what is told."""
    return replace(result, reason=" ".join(result.reason.split()))
