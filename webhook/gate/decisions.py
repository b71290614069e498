"""Decisions: the review context, the messages of caps, the response bytes, and the record for logs and metrics."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from tallygate.webhook.accounting.amounts import Amounts, format_amount
from tallygate.webhook.accounting.charge import explain_derived
from tallygate.webhook.accounting.claim_charge import list_device_resources
from tallygate.webhook.accounting.problem import Problem, Reason
from tallygate.webhook.admission import response
from tallygate.webhook.admission.cap_index import ActiveCap, CapIndex
from tallygate.webhook.admission.request import ALLOWED, AdmissionRequest, Phase, Verdict
from tallygate.webhook.admission.rule_codes import NO_LIMIT_UNDER_CAP, OVER_CAP, OVER_SOFT_CAP
from tallygate.webhook.admission.rule_index import RuleIndex
from tallygate.webhook.errors import TallygateError
from tallygate.webhook.gate.charge_transitions import CapChargeResult
from tallygate.webhook.gate.charging import CapObstacle, ChargeResult
from tallygate.webhook.gate.surge_limits import describe_limit, suggest_end
from tallygate.webhook.gate.top_consumers import ExcessDetails, describe_consumers
from tallygate.webhook.policy.model import PolicySet

_NO_DETAILS = ExcessDetails()

ExcessDescriber = Callable[[CapChargeResult, str], ExcessDetails]
"""Returns the details of an exceeded resource."""


def create_excess_problems(
    result: CapChargeResult,
    describe_excess: ExcessDescriber = lambda *_: _NO_DETAILS,
    *,
    is_allocation: bool = False,
) -> Iterator[Problem]:
    """Yield one problem for each exceeded resource; `is_allocation` if the charge is the allocation of a claim."""
    cap = result.charge.cap.definition
    for name in sorted(result.excess):
        details = describe_excess(result, name)
        consumers = f"; top consumers: {describe_consumers(name, details.consumers)}" if details.consumers else ""
        describe = _describe_allocation if is_allocation else _describe_request
        amount, arithmetic, advice = describe(result, name)
        yield Problem(
            "",
            OVER_CAP.number,
            Reason.FORBIDDEN,
            f"cap {cap.name} {describe_scope(result.charge.cap)} exceeded: {arithmetic}{consumers}. "
            f"{advice}{_describe_expiry(result, name, details)}",
            value=format_amount(name, amount),
            rule=cap.name,
            policy_kind="cap",
        )


def _describe_request(result: CapChargeResult, name: str) -> tuple[int, str, str]:
    """Return the requested amount of an exceeded resource, the arithmetic, and advice."""
    used, reserved = result.before.used.get(name, 0), result.before.reserved.get(name, 0)
    hard = find_hard(result, name)
    current = result.charge.current.get(name, 0)
    requested = result.charge.requested.get(name, 0) - current
    on_top = f" on top of {format_amount(name, current)}" if current else ""
    limit, most = f"hard {format_amount(name, hard)}", hard
    if result.charge.rolls_at:
        limit, most = describe_limit(result, name, hard)
    free = max(most - used - reserved, 0)
    arithmetic = (
        f"requested {format_amount(name, requested)} {name}{on_top}{_explain_derived(result, name)}, "
        f"used {format_amount(name, used)}, reserved {format_amount(name, reserved)}, "
        f"{limit}, free {format_amount(name, free)}"
    )
    if result.charge.rolls_at:
        return requested, arithmetic, suggest_end(result, name, hard)
    return requested, arithmetic, _suggest_request(result, name, current, free)


def _explain_derived(result: CapChargeResult, name: str) -> str:
    """Return the calculation of an amount that the cap derives from several resources of a pod, in parentheses."""
    charge = result.charge
    if charge.pod is None or name not in charge.cap.derived or not charge.requested.get(name):
        return ""
    total = f"{format_amount(name, charge.requested.get(name, 0))} {name}"
    return f" ({explain_derived(charge.pod, charge.cap.derived[name], total)})"


def _describe_allocation(result: CapChargeResult, name: str) -> tuple[int, str, str]:
    """Return the allocated amount of an exceeded resource, the arithmetic, and advice (rule 10).

    The claim itself is charged already, so the amounts are those of all others.
    """
    allocated, hard = result.charge.requested.get(name, 0), find_hard(result, name)
    others = hard + result.excess[name] - allocated
    arithmetic = (
        f"allocated {format_amount(name, allocated)} {name}, charged to others {format_amount(name, others)}, "
        f"hard {format_amount(name, hard)}, free {format_amount(name, max(hard - others, 0))}"
    )
    if allocated <= hard:
        return allocated, arithmetic, f"Wait until {describe_wait(result.charge.cap, name)}"
    if hard > 0:
        return allocated, arithmetic, f"Replace the claim by one of {format_amount(name, hard)} or less"
    return allocated, arithmetic, f"The cap allows none {_describe_namespaces(result)}"


def find_hard(result: CapChargeResult, name: str) -> int:
    """Return the hard limit that decides: the smaller of the policy's and the ledger's, one of which may have none."""
    return min(limits[name] for limits in (result.charge.cap.hard, result.before.hard) if name in limits)


CLAIMS_WAIT = "pods end or claims are deleted"
"""The events that free an amount which claims for devices use."""


def describe_wait(cap: ActiveCap | None, name: str) -> str:
    """Return the events that free an amount under a cap, or under a quota that counts pods alone."""
    if cap is not None and name in cap.device_meters:
        return "the devices of other claims are free"
    return CLAIMS_WAIT if cap is not None and name in cap.device_sources else "pods end"


class ConsumerWords(NamedTuple):
    """The words for the consumers that count under a name, for messages about a cap that is exceeded already.

    `rejected` continues `no further …`, `end` is the event that leaves room, and `remedy` the way to it.
    """

    nouns: str
    rejected: str
    end: str
    remedy: str


_PODS = ConsumerWords("pods", "pod is accepted", "pods end", "end some")
_PODS_AND_CLAIMS = ConsumerWords(
    "pods and claims", "pod or claim is accepted", "pods end or claims are deleted", "end or delete some"
)
_ALLOCATIONS = ConsumerWords("claims", "device is allocated", "devices of claims are free", "delete some claims")


def find_consumer_words(cap: ActiveCap, name: str) -> ConsumerWords:
    """Return the words for the consumers that count under a name of a cap."""
    if name in cap.device_meters:
        return _ALLOCATIONS
    return _PODS_AND_CLAIMS if name in cap.device_sources else _PODS


def _suggest_request(result: CapChargeResult, name: str, current: int, free: int) -> str:
    """Return the request that would pass; waiting helps only a consumer that does not exceed the hard limit alone."""
    hard = find_hard(result, name)
    smaller_request = f"Request {format_amount(name, current + free)} or less"
    wait = describe_wait(result.charge.cap, name)
    if result.charge.requested.get(name, 0) <= hard:
        return f"{smaller_request}, or wait until {wait}" if free else f"Wait until {wait}"
    if free:
        return smaller_request
    if hard > 0:
        return f"Request {format_amount(name, hard)} or less, and wait until {wait}"
    return f"The cap allows none {_describe_namespaces(result)}"


def _describe_expiry(result: CapChargeResult, name: str, details: ExcessDetails) -> str:
    """Return the longest time until waiting helps, as far as the charged amounts are only reserved."""
    if details.expires_within is None or not find_hard(result, name):
        return ""
    return f"; unused reservations expire within {details.expires_within} s"


def create_soft_limit_warnings(result: CapChargeResult) -> Iterator[Problem]:
    """Yield one warning for each resource of which this request exceeds the soft limit."""
    cap = result.charge.cap
    if not cap.soft:
        return
    charged = result.ledger.compute_charged()
    for name in sorted(_find_newly_exceeded(result, cap.soft)):
        yield Problem(
            "",
            OVER_SOFT_CAP.number,
            Reason.FORBIDDEN,
            f"cap {cap.definition.name} {describe_scope(cap)} is above its soft limit: charged "
            f"{format_amount(name, charged[name])} {name}, soft {format_amount(name, cap.soft[name])}, "
            f"hard {_format_hard(cap.hard, name)}",
            rule=cap.definition.name,
            policy_kind="cap",
        )


def is_newly_exceeded(result: CapChargeResult) -> bool:
    """Return whether a privileged user has just exceeded the cap."""
    return result.charge.may_exceed and bool(_find_newly_exceeded(result, result.charge.cap.hard))


def _find_newly_exceeded(result: CapChargeResult, limits: Amounts) -> set[str]:
    """Return the names above these limits whose charge this request has increased."""
    charged = result.ledger.compute_charged()
    return charged.find_excess(limits).keys() & charged.find_shortfall(result.before.compute_charged()).keys()


def create_missing_limit_problem(
    cap: ActiveCap, resource: str, containers: tuple[str, ...], field: str = "spec.containers"
) -> Problem:
    """Return the problem of a pod that lacks a limit which a cap counts, or one factor of a product.

    `field` is the path of the containers in the object.
    """
    name, derived, on = cap.definition.name, cap.derived.get(resource), ", ".join(containers)
    if derived is None:
        text = f"cap {name} counts {resource}, which is missing on {on}: set it"
    else:
        text = f"cap {name} counts {resource} = {derived}, one of which is missing or 0 on {on}: set it"
    return Problem(field, NO_LIMIT_UNDER_CAP.number, Reason.REQUIRED, text, rule=name, policy_kind="cap")


def create_unknown_product_problem(cap: ActiveCap, resource: str, template_field: str = "") -> Problem:
    """Return the problem of a claim for devices that are one factor of a product which a cap counts.

    `template_field` is the path of the claims in a pod or template for which they are made; empty for a claim itself.
    """
    name, product = cap.definition.name, cap.derived[resource]
    subject = "the claims that templates make have" if template_field else "a claim for devices has"
    text = (
        f"cap {name} counts {resource} = {product} of containers, and {subject} no such product: request the resources "
        "in a container"
    )
    field = template_field or "spec.devices.requests"
    return Problem(field, NO_LIMIT_UNDER_CAP.number, Reason.FORBIDDEN, text, rule=name, policy_kind="cap")


def _describe_namespaces(result: CapChargeResult) -> str:
    return "in these namespaces" if result.charge.cap.definition.shared else "in this namespace"


def describe_scope(cap: ActiveCap) -> str:
    """Return the namespaces of a cap, for its messages."""
    if cap.group_value is not None:
        return f"for {cap.group}"
    return "shared by its namespaces" if cap.definition.shared else "of this namespace"


def _format_hard(hard: Amounts, name: str) -> str:
    return format_amount(name, hard[name]) if name in hard else "none"


_RETRY_AFTER_SECONDS = 1


class DecisionRecord(msgspec.Struct, frozen=True):
    """The record of one decision for logs and metrics: names and codes, never the object.

    `verdict` is `allow`, `deny` or `retry`; `rules` are the rules that denied, `exceeded` the caps that a privileged
    user exceeded, `obstacles` the caps that gave no result.
    """

    uid: str
    user: str
    operation: str
    kind: str
    namespace: str
    name: str
    phase: Phase
    dry_run: bool
    verdict: str
    codes: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    audits: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    exceeded: tuple[str, ...] = ()
    obstacles: tuple[CapObstacle, ...] = ()


class Decision(msgspec.Struct, frozen=True):
    """The response bytes, and their record."""

    body: bytes
    record: DecisionRecord


class UndecidedError(TallygateError):
    """No decision was possible, for a reason other than the user's request: the cluster's failurePolicy decides.

    `uid` is that of the review. `obstacles` are the caps that gave no result; empty for a dry run. `is_transient` is
    set if another replica, or this one a second later, may decide.
    """

    def __init__(
        self, message: str, uid: str = "", obstacles: tuple[CapObstacle, ...] = (), *, is_transient: bool = False
    ) -> None:
        super().__init__(message)
        self.uid = uid
        self.obstacles = obstacles
        self.is_transient = is_transient


class ActivePolicySet:
    """One policy set with its indexes, for the extended resources of these device classes."""

    def __init__(self, policies: PolicySet, resources_by_class: Mapping[str, str]) -> None:
        self.policies = policies
        self.resources_by_class = resources_by_class
        self.device_resources = list_device_resources(resources_by_class)
        self.rules = RuleIndex(policies)
        self.caps = CapIndex(policies, resources_by_class)
        self.needs_labels = self.rules.needs_labels or self.caps.needs_labels
        self.reasons: Mapping[str, str] = {rule.name: rule.reason for rule in policies.rules} | {
            cap.name: cap.reason for cap in policies.caps
        }


class ReviewContext(msgspec.Struct, frozen=True):
    """One review under the active policies."""

    request: AdmissionRequest
    phase: Phase
    policy_set: ActivePolicySet
    verdict: Verdict


def _create_message_context(context: ReviewContext) -> response.ResponseSubject:
    return response.ResponseSubject(context.request, context.policy_set.reasons)


def decide_by_rules(context: ReviewContext) -> Decision:
    """Return the decision of the rules, with all warnings."""
    verdict = context.verdict
    body = response.encode_rule_response(_create_message_context(context), verdict, context.phase)
    return Decision(body, _create_record(context, "allow" if verdict.is_allowed else "deny", verdict.problems))


def retry_later(context: ReviewContext, reason: str, obstacles: tuple[CapObstacle, ...] = ()) -> Decision:
    """Return a response without a decision that requests a retry, for this reason."""
    status = response.create_retry_status(context.request, _RETRY_AFTER_SECONDS, reason)
    body = response.encode_response(_create_message_context(context), Verdict(), context.phase, status)
    return Decision(body, replace(_create_record(context, "retry"), obstacles=obstacles))


def deny_by_caps(
    context: ReviewContext, problems: Sequence[Problem], obstacles: tuple[CapObstacle, ...] = ()
) -> Decision:
    """Return the denial by a cap; `obstacles` are those of other caps."""
    status = response.create_denial_status(_create_message_context(context), response.FORBIDDEN, "Forbidden", problems)
    body = response.encode_response(_create_message_context(context), context.verdict, context.phase, status)
    record = _create_record(context, "deny", tuple(problems))
    return Decision(body, replace(record, obstacles=obstacles) if obstacles else record)


def decide_with_warnings(context: ReviewContext, problems: Iterable[Problem], unknown: str = "") -> Decision:
    """Return the decision of the rules, with more warnings."""
    return decide_by_rules(add_warnings(context, problems, unknown))


def add_warnings(context: ReviewContext, problems: Iterable[Problem], unknown: str = "") -> ReviewContext:
    """Return the context with more warnings; `unknown` is a message on what was not evaluated, or empty."""
    warnings = (*context.verdict.warnings, *problems)
    if warnings == context.verdict.warnings and not unknown:
        return context
    unknowns = (*context.verdict.unknown, unknown) if unknown else context.verdict.unknown
    return replace(context, verdict=dataclasses.replace(context.verdict, warnings=warnings, unknown=unknowns))


def allow_under_caps(context: ReviewContext, result: ChargeResult) -> Decision:
    """Return the decision that every cap allows the pod; with a warning above a soft limit."""
    warnings = tuple(warning for booked in result.reserved for warning in create_soft_limit_warnings(booked))
    exceeded_caps = tuple(booked.charge.cap.definition.name for booked in result.reserved if is_newly_exceeded(booked))
    if warnings or exceeded_caps:
        verdict = dataclasses.replace(
            context.verdict, warnings=(*context.verdict.warnings, *warnings), exceeded=exceeded_caps
        )
        context = replace(context, verdict=verdict)
    body = response.encode_response(_create_message_context(context), context.verdict, context.phase, None)
    return Decision(body, _create_record(context, "allow"))


def _create_record(context: ReviewContext, verdict: str, problems: tuple[Problem, ...] = ()) -> DecisionRecord:
    request, rule_verdict = context.request, context.verdict
    record = DecisionRecord(
        uid=request.uid,
        user=request.user.name,
        operation=request.operation,
        kind=request.kind,
        namespace=request.namespace,
        name=request.name,
        phase=context.phase,
        dry_run=request.dry_run,
        verdict=verdict,
    )
    if rule_verdict is ALLOWED and not problems:
        return record
    return replace(
        record,
        codes=tuple(problem.code for problem in problems),
        rules=tuple(dict.fromkeys(problem.rule for problem in problems)),
        warnings=tuple(problem.code for problem in rule_verdict.warnings),
        audits=tuple(problem.code for problem in rule_verdict.audits),
        unknown=rule_verdict.unknown,
        exceeded=rule_verdict.exceeded,
    )
