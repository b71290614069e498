"""Messages of caps to users: the amounts of a rejection, and the warning above a soft limit."""

from collections.abc import Callable, Iterator

from webhook.accounting.amounts import Amounts, format_amount
from webhook.accounting.problem import Problem, Reason
from webhook.admission.rule_codes import NO_LIMIT_UNDER_CAP, OVER_CAP, OVER_SOFT_CAP
from webhook.gate.charging import CapChargeResult
from webhook.gate.top_consumers import ExcessDetails, describe_consumers

_NO_DETAILS = ExcessDetails()

ExcessDescriber = Callable[[CapChargeResult, str], ExcessDetails]
"""Returns the details of an exceeded resource."""


def create_excess_problems(
    result: CapChargeResult, describe_excess: ExcessDescriber = lambda *_: _NO_DETAILS
) -> Iterator[Problem]:
    """Yield one problem for each exceeded resource."""
    cap = result.charge.cap.definition
    used, reserved = result.before.used, result.before.reserved
    for name in sorted(result.excess):
        hard = result.charge.cap.hard[name]
        current = result.charge.current.get(name, 0)
        requested = result.charge.requested.get(name, 0) - current
        on_top = f" on top of {format_amount(name, current)}" if current else ""
        free = max(hard - used.get(name, 0) - reserved.get(name, 0), 0)
        details = describe_excess(result, name)
        consumers = f"; top consumers: {describe_consumers(name, details.consumers)}" if details.consumers else ""
        yield Problem(
            "",
            OVER_CAP.number,
            Reason.FORBIDDEN,
            f"cap {cap.name} {_describe_scope(result)} exceeded: requested {format_amount(name, requested)} {name}"
            f"{on_top}, used {format_amount(name, used.get(name, 0))}, "
            f"reserved {format_amount(name, reserved.get(name, 0))}, "
            f"hard {format_amount(name, hard)}, free {format_amount(name, free)}{consumers}. "
            f"{_suggest_request(result, name, current, free)}{_describe_expiry(result, name, details)}",
            value=format_amount(name, requested),
            rule=cap.name,
            policy_kind="cap",
        )


def _suggest_request(result: CapChargeResult, name: str, current: int, free: int) -> str:
    """Return the request that would pass; waiting helps only a pod that does not exceed the hard limit alone."""
    hard = result.charge.cap.hard[name]
    smaller_request = f"Request {format_amount(name, current + free)} or less"
    if result.charge.requested.get(name, 0) <= hard:
        return f"{smaller_request}, or wait until pods end" if free else "Wait until pods end"
    if free:
        return smaller_request
    if hard > 0:
        return f"Request {format_amount(name, hard)} or less, and wait until pods end"
    return f"The cap allows none {_describe_namespaces(result)}"


def _describe_expiry(result: CapChargeResult, name: str, details: ExcessDetails) -> str:
    """Return the longest time until waiting helps, as far as the charged amounts are only reserved."""
    if details.expires_within is None or not result.charge.cap.hard[name]:
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
            f"cap {cap.definition.name} {_describe_scope(result)} is above its soft limit: charged "
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


def create_missing_limit_problem(cap: str, resource: str, containers: tuple[str, ...], path: str = "") -> Problem:
    """Return the problem of a pod that sets no limit for a resource whose limits a cap counts.

    `path` is the path of the pod in its object.
    """
    return Problem(
        f"{path}spec.containers",
        NO_LIMIT_UNDER_CAP.number,
        Reason.REQUIRED,
        f"cap {cap} counts {resource}, which is missing on {', '.join(containers)}: set it",
        rule=cap,
        policy_kind="cap",
    )


def _describe_namespaces(result: CapChargeResult) -> str:
    return "in these namespaces" if result.charge.cap.definition.shared else "in this namespace"


def _describe_scope(result: CapChargeResult) -> str:
    if result.charge.cap.definition.shared:
        return "shared by its namespaces"
    return "of this namespace"


def _format_hard(hard: Amounts, name: str) -> str:
    return format_amount(name, hard[name]) if name in hard else "none"
