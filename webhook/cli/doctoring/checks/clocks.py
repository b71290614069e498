"""Whether clocks agree: by the Date that the API server and each replica answer with."""

from webhook.cli.doctoring.checks.ledgers import parse_time
from webhook.cli.doctoring.facts import GateFacts, Unavailable
from webhook.cli.doctoring.records import LeaderLease
from webhook.cli.doctoring.verdict import (
    Check,
    CheckResult,
    combine_results,
    create_failure,
    create_pass,
    create_unknown,
    create_warning,
    format_names,
)

WARN_OFFSET_SECONDS, FAIL_OFFSET_SECONDS = 5.0, 300.0
"""Seconds. A Date has no fractions, and takes its time to come; from five minutes on tokens and certificates that are
new are not valid yet."""


def _check_clocks(facts: GateFacts) -> CheckResult:
    if facts.clock_offset is None:
        return create_unknown("the API server answers without a Date")
    offsets = {"this machine's": -facts.clock_offset}
    if not isinstance(facts.replicas, Unavailable):
        offsets |= {
            f"{replica.name}'s": replica.clock_offset - facts.clock_offset
            for replica in facts.replicas
            if replica.clock_offset is not None
        }
    offsets |= _measure_leader_offset(facts, facts.clock_offset)
    results = [
        _create_result(owner, seconds) for owner, seconds in offsets.items() if abs(seconds) > WARN_OFFSET_SECONDS
    ]
    return combine_results(
        results, create_pass(f"within {WARN_OFFSET_SECONDS:.0f} s of the API server's: {format_names([*offsets])}")
    )


def _measure_leader_offset(facts: GateFacts, clock_offset: float) -> dict[str, float]:
    """Of a Lease it can only be told that its holder is ahead: when it was to be renewed, nobody else knows."""
    if not isinstance(facts.lease, LeaderLease) or (renewed_at := parse_time(facts.lease.spec.renew_time)) is None:
        return {}
    seconds = (renewed_at - facts.now).total_seconds() - clock_offset
    return {"the keeper's": seconds} if seconds > WARN_OFFSET_SECONDS else {}


def _create_result(owner: str, seconds: float) -> CheckResult:
    direction = "ahead of" if seconds > 0 else "behind"
    create_result = create_failure if abs(seconds) > FAIL_OFFSET_SECONDS else create_warning
    return create_result(f"{owner} clock is {abs(seconds):.0f} s {direction} the API server's", "timedatectl status")


CLOCK_CHECKS = (
    Check(
        "clocks",
        "Clocks agree",
        f"FAIL: more than {FAIL_OFFSET_SECONDS:.0f} s apart; WARN: more than {WARN_OFFSET_SECONDS:.0f} s",
        _check_clocks,
    ),
)
