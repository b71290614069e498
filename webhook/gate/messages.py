"""What a cap says to the person at the terminal: the arithmetic of a refusal, and the warning above a soft cap."""

from collections.abc import Callable, Iterator

from webhook.accounting.amounts import Amounts, format_amount
from webhook.accounting.problem import Problem, Reason
from webhook.admission.rule_codes import NO_LIMIT_UNDER_CAP, OVER_CAP, OVER_SOFT_CAP
from webhook.gate.charging import CapChargeResult
from webhook.gate.top_consumers import ExcessDetails, describe_consumers

_NO_DETAILS = ExcessDetails()

ExcessDescriber = Callable[[CapChargeResult, str], ExcessDetails]
"""What there is to tell of a name that goes over."""


def create_excess_problems(
    result: CapChargeResult, describe_excess: ExcessDescriber = lambda *_: _NO_DETAILS
) -> Iterator[Problem]:
    """One problem for each name that goes over."""
    cap = result.charge.cap.definition
    used, reserved = result.before.used, result.before.reserved
    for name in sorted(result.excess):
        hard = result.charge.cap.hard[name]
        current = result.charge.current.get(name, 0)
        requested = result.charge.requested.get(name, 0) - current
        on_top = f" on top of {format_amount(name, current)}" if current else ""
        free = max(hard - used.get(name, 0) - reserved.get(name, 0), 0)
        details = describe_excess(result, name)
        consumers = f"; held most by {describe_consumers(name, details.consumers)}" if details.consumers else ""
        yield Problem(
            "",
            OVER_CAP.number,
            Reason.FORBIDDEN,
            f"asks {format_amount(name, requested)} {name}{on_top}, cap {cap.name} {_describe_scope(result)} holds "
            f"{format_amount(name, used.get(name, 0))} of {format_amount(name, hard)}, "
            f"{format_amount(name, reserved.get(name, 0))} promised, "
            f"free {format_amount(name, free)}{consumers}: "
            f"{_suggest_request(result, name, current, free)}{_describe_expiry(result, name, details)}",
            value=format_amount(name, requested),
            rule=cap.name,
            policy_kind="cap",
        )


def _suggest_request(result: CapChargeResult, name: str, current: int, free: int) -> str:
    """What would pass. Waiting helps only a pod that the cap could hold at all."""
    hard = result.charge.cap.hard[name]
    smaller_request = f"ask for {format_amount(name, current + free)} or less"
    if result.charge.requested.get(name, 0) <= hard:
        return f"{smaller_request}, or wait until pods end" if free else "wait until pods end"
    if free:
        return smaller_request
    if hard > 0:
        return f"ask for {format_amount(name, hard)} or less, and wait until pods end"
    return f"nothing of it may be held {_describe_namespaces(result)}"


def _describe_expiry(result: CapChargeResult, name: str, details: ExcessDetails) -> str:
    """When waiting helps at the latest, as far as room is only promised."""
    if details.expires_within is None or not result.charge.cap.hard[name]:
        return ""
    return f"; what is promised to pods that do not come is free within {details.expires_within} s"


def create_soft_limit_warnings(result: CapChargeResult) -> Iterator[Problem]:
    """One warning for each name that the ask takes over the soft part of the cap."""
    cap = result.charge.cap
    if not cap.soft:
        return
    charged = result.ledger.compute_charged()
    for name in sorted(_find_newly_exceeded(result, cap.soft)):
        yield Problem(
            "",
            OVER_SOFT_CAP.number,
            Reason.FORBIDDEN,
            f"cap {cap.definition.name} {_describe_scope(result)} is at {format_amount(name, charged[name])} {name}, "
            "above "
            "its "
            "soft "
            f"{format_amount(name, cap.soft[name])} (hard {_format_hard(cap.hard, name)})",
            rule=cap.definition.name,
            policy_kind="cap",
        )


def is_newly_exceeded(result: CapChargeResult) -> bool:
    """Whether a privileged user has just gone over the cap."""
    return result.charge.may_exceed and bool(_find_newly_exceeded(result, result.charge.cap.hard))


def _find_newly_exceeded(result: CapChargeResult, limits: Amounts) -> set[str]:
    """The names over these bounds of which this ask has added some."""
    charged = result.ledger.compute_charged()
    return charged.find_excess(limits).keys() & charged.find_shortfall(result.before.compute_charged()).keys()


def create_missing_limit_problem(cap: str, resource: str, containers: tuple[str, ...], path: str = "") -> Problem:
    """The refusal of a pod that sets no limit where a cap counts limits; `path` is where the pod stands."""
    return Problem(
        f"{path}spec.containers",
        NO_LIMIT_UNDER_CAP.number,
        Reason.REQUIRED,
        f"cap {cap} counts {resource}, and there is no such limit on {', '.join(containers)}: set one",
        rule=cap,
        policy_kind="cap",
    )


def _describe_namespaces(result: CapChargeResult) -> str:
    return "in these namespaces" if result.charge.cap.definition.shared else "in this namespace"


def _describe_scope(result: CapChargeResult) -> str:
    if result.charge.cap.definition.shared:
        return "(shared by its namespaces)"
    return "of this namespace"


def _format_hard(hard: Amounts, name: str) -> str:
    return format_amount(name, hard[name]) if name in hard else "none"
