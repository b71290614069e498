"""Whether clocks agree: by the Date that the API server and each replica answer with."""

from webhook.cli.doctoring.checks.ledgers import moment
from webhook.cli.doctoring.facts import Facts, Unseen
from webhook.cli.doctoring.records import Lease
from webhook.cli.doctoring.verdict import Check, Said, failed, named, passed, together, unknown, warned

APART, FAR = 5.0, 300.0
"""Seconds. A Date has no fractions, and takes its time to come; from five minutes on tokens and certificates that are
new are not valid yet."""


def _clocks(facts: Facts) -> Said:
    if facts.ahead is None:
        return unknown("the API server answers without a Date")
    apart = {"this machine's": -facts.ahead}
    if not isinstance(facts.replicas, Unseen):
        apart |= {f"{each.name}'s": each.ahead - facts.ahead for each in facts.replicas if each.ahead is not None}
    apart |= _holder(facts, facts.ahead)
    said = [_judged(whose, seconds) for whose, seconds in apart.items() if abs(seconds) > APART]
    return together(said, passed(f"within {APART:.0f} s of the API server's: {named([*apart])}"))


def _holder(facts: Facts, ahead: float) -> dict[str, float]:
    """Of a Lease it can only be told that its holder is ahead: when it was to be renewed, nobody else knows."""
    if not isinstance(facts.lease, Lease) or (renewed := moment(facts.lease.spec.renew_time)) is None:
        return {}
    seconds = (renewed - facts.now).total_seconds() - ahead
    return {"the keeper's": seconds} if seconds > APART else {}


def _judged(whose: str, seconds: float) -> Said:
    way = "ahead of" if seconds > 0 else "behind"
    said = failed if abs(seconds) > FAR else warned
    return said(f"{whose} clock is {abs(seconds):.0f} s {way} the API server's", "timedatectl status")


CHECKS = (
    Check(
        "clocks",
        "Clocks agree",
        f"FAIL: more than {FAR:.0f} s apart; WARN: more than {APART:.0f} s",
        _clocks,
    ),
)
