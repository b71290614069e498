"""Warnings for claims that have no room under a cap by allocated devices, even if they get the least of them.

Such a cap decides when kube-scheduler allocates devices, and reports a rejection in the condition of a pod. The gate
warns the user who creates the claim, its template, or a pod with claims from templates; `workload_forecast` does so for
workloads. The amounts are lower bounds over the devices that are published now (`accounting.devices.least_amounts`).
So a warning states what is certain for these devices. It denies nothing, since others may be published later.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from tallygate.accounting.amounts import NO_AMOUNTS, Amounts, format_amount
from tallygate.accounting.devices.least_amounts import LeastAmountsReview
from tallygate.accounting.problem import Problem, Reason
from tallygate.admission.cap_index import ActiveCap
from tallygate.admission.evaluate import SCHEDULER_USER
from tallygate.admission.rule_codes import DEVICES_OVER_CAP, DEVICES_OVER_FREE
from tallygate.objects.devices import ResourceClaim
from tallygate.policy.matching import matches_subjects
from tallygate.policy.model import ForecastEnforcement
from tallygate.review.cap_messages import describe_scope, describe_wait
from tallygate.state.ledger.ledger import Ledger

_SCHEDULER_GROUPS = ("system:authenticated",)


class ForecastSubject(NamedTuple):
    """The begin of a message, and the pod that waits."""

    gets: str
    pod: str


CLAIM = ForecastSubject("this claim gets", "its pod")
TEMPLATE = ForecastSubject("a claim of this template gets", "its pod")
POD = ForecastSubject("the claims of this pod get", "the pod")


def compute_least(cap: ActiveCap, claims: Sequence[ResourceClaim], review: LeastAmountsReview | None) -> Amounts:
    """Return the least that claims together count under a cap once they are allocated; empty if nothing is known.

    It is also empty if kube-scheduler may exceed the cap, since it allocates the devices of all claims.
    """
    if review is None or not forecasts_devices(cap):
        return NO_AMOUNTS
    counted = [claim for claim in claims if cap.counts_allocation(claim, is_owned=False)]
    return review.compute(counted, cap.device_meters)


def forecasts_devices(cap: ActiveCap) -> bool:
    """Return whether a cap warns about claims whose devices it counts."""
    if not cap.device_meters or cap.definition.workloads is ForecastEnforcement.IGNORE:
        return False
    return not matches_subjects(cap.definition.exceed, SCHEDULER_USER, _SCHEDULER_GROUPS)


def is_counted(ledger: Ledger, cap: ActiveCap, name: str) -> bool:
    """Return whether a ledger counts a name as the cap defines it now."""
    return not ledger.initializer and ledger.resources >= cap.list_sources((name,))


def forecast_amounts(
    subject: ForecastSubject, least: Amounts, cap: ActiveCap, read_ledger: Callable[[], Ledger | None] = lambda: None
) -> Iterator[Problem]:
    """Yield a problem for each amount that exceeds the hard limit of a cap, or the free amount of its ledger."""
    for name, amount in sorted(least.items()):
        hard = cap.hard.get(name)
        if hard is None:
            continue
        text = (
            f"{subject.gets} at least {format_amount(name, amount)} {name} of the published devices, "
            f"cap {cap.definition.name} {describe_scope(cap)} has hard {cap.limits.describe(name)}"
        )
        if amount > cap.limits.get_most(name):
            text = f"{text}: with these devices {subject.pod} can never run"
            yield _create_problem(DEVICES_OVER_CAP, cap, text)
            continue
        ledger = read_ledger()
        if ledger is None or not is_counted(ledger, cap, name):
            continue
        free = max(hard - ledger.compute_charged().get(name, 0), 0)
        if amount > free:
            wait = describe_wait(cap, name)
            text = f"{text}, free {format_amount(name, free)}: {subject.pod} stays pending until {wait}"
            yield _create_problem(DEVICES_OVER_FREE, cap, text)


def _create_problem(code: str, cap: ActiveCap, text: str) -> Problem:
    return Problem("", code, Reason.FORBIDDEN, text, rule=cap.definition.name, policy_kind="cap")
