"""The parts of rules and implied requests that no admission policy has."""

from collections.abc import Iterator
from typing import Final

from tallygate.admission.kinds import BUILT_IN_TARGETS
from tallygate.backstop.amount_bounds import MULTIPLE_OF, ONE_OF, find_missing_bounds
from tallygate.backstop.compiled_objects import MAX_PARTS
from tallygate.backstop.gaps import Gap
from tallygate.backstop.object_variables import MAX_ENTRIES, MAX_LISTS, MAX_NAME_LENGTH
from tallygate.backstop.rule_expressions import list_compiled_kinds
from tallygate.policy.matching import matches_resource
from tallygate.policy.model import AmountBounds, Equality, PolicySet, ResourceRule

TOO_COSTLY: Final = "The patterns and bounds of the rule cost more than an API server evaluates for one expression."

_BUILT_IN = frozenset(kind for _, kind in BUILT_IN_TARGETS)
_NODES = (
    "Nodes are not checked: what a cluster needs to start or to recover is never denied without the gate, whose "
    "webhook of nodes fails open too."
)
_SIZES = (
    f"Objects with more than {MAX_LISTS} containers or {MAX_ENTRIES} quantities, and names of more than "
    f"{MAX_NAME_LENGTH} characters, are not checked, so that no object exceeds the cost limit of an API server."
)


def list_rule_gaps(rule: ResourceRule, policies: PolicySet) -> Iterator[Gap]:
    """Yield the gaps of a rule whose findings are compiled."""
    subject = f"rule {rule.name}"
    checks = rule.checks
    if checks.advertised:
        reason = "Admission policies know no nodes and no published devices."
        yield Gap(subject, "checks.advertised", reason, is_looser=False)
    if checks.schedulable is not None:
        reason = "Admission policies cannot predict whether a node can run a pod."
        yield Gap(subject, "checks.schedulable", reason, is_looser=False)
    if checks.active_deadline_seconds is not None:
        reason = "Admission policies do not check the deadlines of pods and Jobs."
        yield Gap(subject, "checks.activeDeadlineSeconds", reason, is_looser=False)
    yield from _list_kind_gaps(rule, subject)
    if not list_compiled_kinds(rule):
        return
    yield Gap(subject, "checks", _SIZES, is_looser=True)
    if checks.whole_quantity is not False:
        reason = "Each amount is checked, but not that the sum of a pod is within 64 bits."
        yield Gap(subject, "checks.wholeQuantity", reason, is_looser=True)
    if checks.requests_equal_limits is Equality.FILL:
        reason = "Nothing fills in the missing one of request and limit, so only different values are denied."
        yield Gap(subject, "checks.requestsEqualLimits", reason, is_looser=True)
    yield from _list_bound_gaps(subject, "perContainer", checks.per_container)
    yield from _list_bound_gaps(subject, "perPod", checks.per_pod)
    yield from _list_bound_gaps(subject, "perClaim", checks.per_claim)
    if checks.per_pod is not None:
        reason = (
            "A pod-level resource that only the containers request, beside other pod-level amounts, is not checked, "
            "nor are amounts beyond 64 bits, nor is a change that writes the same sum in another way."
        )
        yield Gap(subject, "checks.perPod", reason, is_looser=True)
    implied = sorted(
        request.resource for request in policies.implied_requests if matches_resource(rule.resources, request.resource)
    )
    if implied:
        reason = f"Templates are checked without the implied requests of {', '.join(implied)}."
        yield Gap(subject, "checks.impliedRequests", reason, is_looser=True)


def _list_kind_gaps(rule: ResourceRule, subject: str) -> Iterator[Gap]:
    kinds = rule.match.kinds
    if (rule.match.namespaces is None and kinds is None) or (kinds is not None and "Node" in kinds):
        yield Gap(subject, "match.kinds", _NODES, is_looser=kinds is None or len(kinds) > 1)
    if kinds is None:
        reason = "Workloads of other projects are not checked; the pods that they create are."
        yield Gap(subject, "match.kinds", reason, is_looser=True)
    elif others := sorted(kinds - _BUILT_IN):
        reason = f"{', '.join(others)}: workloads of other projects are not checked."
        yield Gap(subject, "match.kinds", reason, is_looser=bool(list_compiled_kinds(rule)))


def _list_bound_gaps(subject: str, field: str, bounds: AmountBounds | None) -> Iterator[Gap]:
    if bounds is None:
        return
    missing = sorted(find_missing_bounds(bounds))
    for name in missing:
        reason = "An amount beyond 64 bits, or finer than a thousandth, cannot be compared in an expression."
        yield Gap(subject, f"checks.{field}.{name}", reason, is_looser=False)
    if field == "perClaim":
        if bounds.min is not None or bounds.multiple_of is not None or bounds.one_of:
            reason = "Of a claim with alternatives (firstAvailable) only the largest number of devices is checked."
            yield Gap(subject, f"checks.{field}", reason, is_looser=True)
        return
    given = {"min": bounds.min is not None, MULTIPLE_OF: bounds.multiple_of is not None, ONE_OF: bool(bounds.one_of)}
    for name, is_given in given.items():
        if is_given and name not in missing:
            reason = "Amounts of 9e12 units or more, and fractions of amounts above 1e10, are not checked."
            yield Gap(subject, f"checks.{field}.{name}", reason, is_looser=True)


def list_name_gaps(rule: ResourceRule) -> Iterator[Gap]:
    """Yield the gap of a rule that checks names alone, which Kubernetes checks as well."""
    if rule.checks.well_formed_name and list_compiled_kinds(rule):
        reason = "No object is needed: Kubernetes itself rejects such names of everything but nodes."
        yield Gap(f"rule {rule.name}", "checks.wellFormedName", reason, is_looser=True)


def list_implied_gaps(policies: PolicySet) -> Iterator[Gap]:
    """Yield the gaps of implied requests: only the mutating webhook adds a request."""
    for request in policies.implied_requests:
        reason = "Only the mutating webhook adds the request, so pods without it are created."
        yield Gap(f"implied request {request.name}", "resource", reason, is_looser=False)


def create_cost_gap(rule: ResourceRule) -> Gap:
    """Return the gap of a rule that costs more than one expression may."""
    return Gap(f"rule {rule.name}", "checks", TOO_COSTLY, is_looser=False)


def create_size_gap(rule: ResourceRule) -> Gap:
    """Return the gap of a rule that is beyond the last policy of its enforcement."""
    reason = f"The rules before it of the same enforcement fill {MAX_PARTS} policies, up to their cost limits."
    return Gap(f"rule {rule.name}", "checks", reason, is_looser=False)
