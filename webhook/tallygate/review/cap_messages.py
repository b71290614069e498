"""Messages of caps: the amounts of a request that exceeds one, advice, and warnings of soft limits."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

from tallygate.accounting.amounts import Amounts, format_amount
from tallygate.accounting.charge import explain_derived
from tallygate.accounting.derived_amounts import WeightedSum
from tallygate.accounting.gpu_annotations import describe_form
from tallygate.accounting.pod_resources import parse_pod_resources
from tallygate.accounting.problem import Problem, Reason
from tallygate.admission.cap_index import ActiveCap
from tallygate.admission.rule_codes import CAP_NOT_COUNTED, NEW_CAP, NO_LIMIT_UNDER_CAP, OVER_CAP, OVER_SOFT_CAP
from tallygate.cluster.consumer_sums import Consumer, describe_consumers
from tallygate.objects.core import Pod, PodSpec
from tallygate.policy.formats import quote_text
from tallygate.policy.periods import format_period
from tallygate.review.cap_charge import CapChargeResult
from tallygate.review.cap_reach import (
    NOTHING_GUARANTEED,
    OTHERS,
    Reach,
    compute_reach,
    describe_part,
    describe_reach,
)
from tallygate.state.ledger.ledger import Activation, Ledger
from tallygate.state.ledger.reserve import Prerequisite
from tallygate.state.ledger.surges import is_surge_over

_NAME_EXISTS = (
    "A pod of this name exists and is counted until it is deleted: a new one needs room for what it requests beyond "
    "that pod, or for all of it if kube-scheduler made a claim for that pod. "
)

_GUARANTEED_NAMESPACES = re.compile(
    r"guaranteed to namespace [a-z0-9-]+(?:, namespace [a-z0-9-]+)*(?: and [0-9]+ more namespaces?)?"
)
_TOP_NAMESPACES = re.compile(r"; top consumers: namespace [^()]*\([^()]*\)(?:, namespace [^()]*\([^()]*\))*")


@dataclass(frozen=True, slots=True)
class ExcessDetails:
    """The top consumers of an exceeded resource, and the seconds until all unused reservations have expired.

    `name_exists` is True if it is a pod that is created next to a counted one of its name.
    """

    consumers: tuple[Consumer, ...] = ()
    expires_within: int | None = None
    name_exists: bool = False


_NO_DETAILS = ExcessDetails()
ExcessDescriber = Callable[[CapChargeResult, str], ExcessDetails]
"""Returns the details of an exceeded resource."""


def describe_no_excess(_: CapChargeResult, __: str) -> ExcessDetails:
    """Return no details: none are known."""
    return _NO_DETAILS


def create_excess_problems(
    result: CapChargeResult, describe_excess: ExcessDescriber = describe_no_excess, *, is_allocation: bool = False
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
            OVER_CAP,
            Reason.FORBIDDEN,
            f"cap {cap.name} {describe_scope(result.charge.cap)} exceeded: {arithmetic}{consumers}. "
            f"{_NAME_EXISTS if details.name_exists else ''}{advice}{_describe_expiry(result, name, details)}",
            value=format_amount(name, amount),
            rule=cap.name,
            policy_kind="cap",
        )


def hide_top_namespaces(text: str) -> str:
    """Return the message of an exceeded cap without its top consumers and those who have guarantees."""
    return _GUARANTEED_NAMESPACES.sub(f"guaranteed to {OTHERS}", _TOP_NAMESPACES.sub("", text))


def _describe_request(result: CapChargeResult, name: str) -> tuple[int, str, str]:
    """Return the requested amount of an exceeded resource, the arithmetic, and advice."""
    used, reserved = result.before.used.get(name, 0), result.before.reserved.get(name, 0)
    hard = find_hard(result, name)
    current = result.charge.current.get(name, 0)
    requested = result.charge.requested.get(name, 0) - current
    on_top = f" on top of {format_amount(name, current)}" if current else ""
    limit, most = f"hard {result.charge.cap.limits.describe(name, hard)}", hard
    if result.charge.rolls_at:
        limit, most = _describe_surge(result, name, hard)
    free = max(most - used - reserved, 0)
    unspent = min(find_unspent(result, name), free)
    arithmetic = (
        f"requested {format_amount(name, requested)} {name}{on_top}{_explain_derived(result, name)}, "
        f"used {format_amount(name, used)}, reserved {format_amount(name, reserved)}, "
        f"{limit}, free {format_amount(name, free)}{describe_guaranteed(result, name, free)}"
    )
    if result.charge.rolls_at:
        return requested, arithmetic, _suggest_end(result, name, hard)
    # where the counted pod of its name covers a part of the pod, more than what is free would pass (rule 13)
    passing = max(requested - result.excess[name], free - unspent)
    return requested, arithmetic, _suggest_request(result, name, current, passing)


def find_unspent(result: CapChargeResult, name: str) -> int:
    """Return the sum of the unspent guarantees of other namespaces under a name (rule 15)."""
    return sum(result.guaranteed.get(name, NOTHING_GUARANTEED).unspent.values())


def find_reach(result: CapChargeResult, name: str) -> Reach:
    """Return the most of a name that the namespace of a rejected consumer may have under the cap."""
    guaranteed = result.guaranteed.get(name, NOTHING_GUARANTEED)
    return compute_reach(result.charge.cap, name, find_hard(result, name), guaranteed)


def describe_guaranteed(result: CapChargeResult, name: str, free: int) -> str:
    """Return the part of the free amount that is guaranteed to others, and to whom; empty if nothing is."""
    unspent = result.guaranteed.get(name, NOTHING_GUARANTEED).unspent
    return describe_part(name, min(sum(unspent.values()), free), unspent, result.charge.cap)


def find_most(cap: ActiveCap, ledger: Ledger, name: str) -> int:
    """Return the largest amount under a name with the surge: the smaller one of policy and ledger (rule 8)."""
    limits = (cap.hard, cap.surge), (ledger.hard, ledger.surge.amounts)
    return min(hard[name] + surge.get(name, 0) for hard, surge in limits if name in hard)


def _describe_surge(result: CapChargeResult, name: str, hard: int) -> tuple[str, int]:
    """Return the hard limit and the surge of a pod of a controller that rolls as text, and the largest amount now."""
    most = find_most(result.charge.cap, result.before, name)
    limits = result.charge.cap.limits
    text = f"hard {limits.describe(name, hard)}, surge {format_amount(name, max(most - hard, 0))}"
    since = result.before.surge.since
    if since is None:
        return text, most
    if is_surge_over(result.before, result.charge.surge_terms):
        return f"{text} (over, it began at {_format_time(since)})", hard
    return f"{text} (since {_format_time(since)})", most


def _suggest_end(result: CapChargeResult, name: str, hard: int) -> str:
    """Return the advice for a pod of a controller that rolls, which exceeds the hard limit and the surge."""
    terms = result.charge.surge_terms
    if not is_surge_over(result.before, terms):
        return "Wait until old pods end"
    return (
        f"The surge has lasted {format_period(terms.seconds)}: no pod exceeds hard until no more than "
        f"{format_amount(name, hard)} is charged. Wait until old pods end, or undo the rollout"
    )


def _format_time(seconds: int) -> str:
    """Return a time of the Unix epoch as Kubernetes writes it."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"


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
    others = hard + result.excess[name] - allocated - find_unspent(result, name)
    free = max(hard - others, 0)
    arithmetic = (
        f"allocated {format_amount(name, allocated)} {name}, charged to others {format_amount(name, others)}, "
        f"hard {result.charge.cap.limits.describe(name, hard)}, free {format_amount(name, free)}"
        f"{describe_guaranteed(result, name, free)}"
    )
    reach = find_reach(result, name)
    if allocated <= reach.now:
        return allocated, arithmetic, f"Wait until {describe_wait(result.charge.cap, name)}"
    if allocated <= reach.ever:
        return allocated, arithmetic, f"Wait until {describe_larger_limit(result.charge.cap, name)}"
    reason = describe_reach(result.charge.cap, name, reach, allocated)
    if reach.now > 0:
        advice = f"{reason}Replace the claim by one of {format_amount(name, reach.now)} or less"
        return allocated, arithmetic, advice
    return allocated, arithmetic, reason.removesuffix(". ") or f"The cap allows none {_describe_namespaces(result)}"


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


def describe_larger_limit(cap: ActiveCap | None, name: str) -> str:
    """Return the event that gives what exceeds the limit of now room."""
    follows = cap is not None and cap.limits.follows_capacity(name)
    return "there is more capacity" if follows else "the limit is larger"


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
    reach = find_reach(result, name)
    smaller_request = f"Request {format_amount(name, current + free)} or less"
    wait = describe_wait(result.charge.cap, name)
    requested = result.charge.requested.get(name, 0)
    if requested <= reach.now:
        return f"{smaller_request}, or wait until {wait}" if free else f"Wait until {wait}"
    if requested <= reach.ever:
        larger = describe_larger_limit(result.charge.cap, name)
        return f"{smaller_request}, or wait until {larger}" if free else f"Wait until {larger}"
    reason = describe_reach(result.charge.cap, name, reach, requested)
    if free:
        return f"{reason}{smaller_request}"
    if reach.now > 0:
        return f"{reason}Request {format_amount(name, reach.now)} or less, and wait until {wait}"
    return reason.removesuffix(". ") or f"The cap allows none {_describe_namespaces(result)}"


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
            OVER_SOFT_CAP,
            Reason.FORBIDDEN,
            f"cap {cap.definition.name} {describe_scope(cap)} is above its soft limit: charged "
            f"{format_amount(name, charged[name])} {name}, soft {cap.describe_soft(name)}, "
            f"hard {cap.limits.describe(name) if name in cap.hard else 'none'}",
            rule=cap.definition.name,
            policy_kind="cap",
        )


def create_new_cap_warning(cap: ActiveCap, activation: Activation) -> Problem:
    """Return the warning that a cap is new, and from when on it enforces its limits (rule 7)."""
    name = cap.definition.name
    text = f"cap {name} is new and counts existing pods first: {describe_activation(activation)}"
    return Problem("", NEW_CAP, Reason.FORBIDDEN, text, rule=name, policy_kind="cap")


def describe_activation(activation: Activation) -> str:
    """Return from when on a cap enforces its limits."""
    if not activation.expected_at:
        return "enforced once its pods are counted"
    time = datetime.fromtimestamp(activation.expected_at, UTC)
    return f"enforced from about {time:%H:%M:%S} UTC"


def describe_prerequisite(cap: str, prerequisite: Prerequisite, activation: Activation) -> str:
    """Return the reason why a cap does not decide yet."""
    reason = f"cap {cap}: {prerequisite}"
    if prerequisite is Prerequisite.ACTIVATE:
        reason = f"cap {cap} cannot decide yet: {prerequisite}; {describe_activation(activation)}"
    return f"{reason} ({CAP_NOT_COUNTED}, cap {cap})"


def is_newly_exceeded(result: CapChargeResult) -> bool:
    """Return whether a privileged user has just exceeded the cap."""
    return result.charge.may_exceed and bool(_find_newly_exceeded(result, result.charge.cap.hard))


def _find_newly_exceeded(result: CapChargeResult, limits: Amounts) -> set[str]:
    """Return the names above these limits whose charge this request has increased."""
    charged = result.ledger.compute_charged()
    return charged.find_excess(limits).keys() & charged.find_shortfall(result.before.compute_charged()).keys()


def create_missing_limit_problem(
    cap: ActiveCap, resource: str, lacking: tuple[str, ...], pod: Pod, locate: Callable[[str], str] = str
) -> Problem:
    """Return the problem of a pod that lacks a limit which a cap counts, or factors of a product.

    `lacking` are its containers that do, or the annotations that are no amount. `locate` returns the path in the object
    of a field of the pod.
    """
    name, derived, on = cap.definition.name, cap.derived.get(resource), ", ".join(lacking)
    if isinstance(derived, WeightedSum):
        return _create_invalid_annotation_problem(cap, resource, lacking[0], pod, locate)
    if derived is None:
        text = f"cap {name} counts {resource}, which is missing or 0 on {on}: set it"
    else:
        resources = parse_pod_resources(pod.spec or PodSpec())
        described = "; ".join(
            f"{lacking_name} {derived.describe_incomplete(resources, lacking_name)}" for lacking_name in lacking
        )
        text = f"cap {name} counts {resource} = {derived}, and {described}: set it"
    field = locate("spec.containers")
    return Problem(field, NO_LIMIT_UNDER_CAP, Reason.REQUIRED, text, rule=name, policy_kind="cap")


def _create_invalid_annotation_problem(
    cap: ActiveCap, resource: str, annotation: str, pod: Pod, locate: Callable[[str], str]
) -> Problem:
    value = ((pod.metadata.annotations if pod.metadata else None) or {}).get(annotation, "")
    text = (
        f"cap {cap.definition.name} counts {resource} by annotations, and {quote_text(value)} is not an amount: write "
        f"{describe_form(annotation)}"
    )
    return Problem(
        locate(f"metadata.annotations[{annotation}]"),
        NO_LIMIT_UNDER_CAP,
        Reason.INVALID,
        text,
        value=quote_text(value),
        rule=cap.definition.name,
        policy_kind="cap",
    )


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
    return Problem(field, NO_LIMIT_UNDER_CAP, Reason.FORBIDDEN, text, rule=name, policy_kind="cap")


def _describe_namespaces(result: CapChargeResult) -> str:
    return "in these namespaces" if result.charge.cap.definition.shared else "in this namespace"


def describe_scope(cap: ActiveCap) -> str:
    """Return the namespaces of a cap, for its messages."""
    if cap.group_value is not None:
        return f"for {cap.group}"
    return "shared by its namespaces" if cap.definition.shared else "of this namespace"
