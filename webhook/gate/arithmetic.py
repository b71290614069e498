"""What a cap says to the person at the terminal: the arithmetic of a refusal, and the warning above a soft cap."""

from collections.abc import Callable, Iterator

from webhook.accounting.amounts import Amounts, format_amount
from webhook.accounting.problem import Problem, Reason
from webhook.admission.codes import NO_LIMIT_UNDER_CAP, OVER_CAP, OVER_SOFT_CAP
from webhook.gate.holders import said
from webhook.gate.promising import Booked
from webhook.gate.telling import Beside

_NOTHING = Beside()

Tell = Callable[[Booked, str], Beside]
"""What there is to tell of a name that goes over."""


def refusals(booked: Booked, tell: Tell = lambda *_: _NOTHING) -> Iterator[Problem]:
    """One problem for each name that goes over."""
    cap = booked.asked.counted.cap
    held, promised = booked.before.tally, booked.before.promised
    for name in sorted(booked.excess):
        hard = booked.asked.counted.hard[name]
        old = booked.asked.old.get(name, 0)
        asks = booked.asked.new.get(name, 0) - old
        on_top = f" on top of {format_amount(name, old)}" if old else ""
        free = max(hard - held.get(name, 0) - promised.get(name, 0), 0)
        beside = tell(booked, name)
        holders = f"; held most by {said(name, beside.holders)}" if beside.holders else ""
        yield Problem(
            "",
            OVER_CAP.number,
            Reason.FORBIDDEN,
            f"asks {format_amount(name, asks)} {name}{on_top}, cap {cap.name} {_scope(booked)} holds "
            f"{format_amount(name, held.get(name, 0))} of {format_amount(name, hard)}, "
            f"{format_amount(name, promised.get(name, 0))} promised, "
            f"free {format_amount(name, free)}{holders}: "
            f"{_advice(booked, name, old, free)}{_back(booked, name, beside)}",
            value=format_amount(name, asks),
            rule=cap.name,
            policy_kind="cap",
        )


def _advice(booked: Booked, name: str, old: int, free: int) -> str:
    """What would pass. Waiting helps only a pod that the cap could hold at all."""
    hard = booked.asked.counted.hard[name]
    less = f"ask for {format_amount(name, old + free)} or less"
    if booked.asked.new.get(name, 0) <= hard:
        return f"{less}, or wait until pods end" if free else "wait until pods end"
    if free:
        return less
    if hard > 0:
        return f"ask for {format_amount(name, hard)} or less, and wait until pods end"
    return f"nothing of it may be held {_where(booked)}"


def _back(booked: Booked, name: str, beside: Beside) -> str:
    """When waiting helps at the latest, as far as room is only promised."""
    if beside.back is None or not booked.asked.counted.hard[name]:
        return ""
    return f"; what is promised to pods that do not come is free within {beside.back} s"


def soft_warnings(booked: Booked) -> Iterator[Problem]:
    """One warning for each name that the ask takes over the soft part of the cap."""
    counted = booked.asked.counted
    if not counted.soft:
        return
    charged = booked.ledger.charged()
    for name in sorted(_taken_over(booked, counted.soft)):
        yield Problem(
            "",
            OVER_SOFT_CAP.number,
            Reason.FORBIDDEN,
            f"cap {counted.cap.name} {_scope(booked)} is at {format_amount(name, charged[name])} {name}, above its "
            "soft "
            f"{format_amount(name, counted.soft[name])} (hard {_hard(counted.hard, name)})",
            rule=counted.cap.name,
            policy_kind="cap",
        )


def exceeded(booked: Booked) -> bool:
    """Whether a privileged user has just gone over the cap."""
    return booked.asked.exceeds and bool(_taken_over(booked, booked.asked.counted.hard))


def _taken_over(booked: Booked, bounds: Amounts) -> set[str]:
    """The names over these bounds of which this ask has added some."""
    charged = booked.ledger.charged()
    return charged.find_excess(bounds).keys() & charged.find_shortfall(booked.before.charged()).keys()


def no_limit(cap: str, counted: str, containers: tuple[str, ...], path: str = "") -> Problem:
    """The refusal of a pod that sets no limit where a cap counts limits; `path` is where the pod stands."""
    return Problem(
        f"{path}spec.containers",
        NO_LIMIT_UNDER_CAP.number,
        Reason.REQUIRED,
        f"cap {cap} counts {counted}, and there is no such limit on {', '.join(containers)}: set one",
        rule=cap,
        policy_kind="cap",
    )


def _where(booked: Booked) -> str:
    return "in these namespaces" if booked.asked.counted.cap.shared else "in this namespace"


def _scope(booked: Booked) -> str:
    if booked.asked.counted.cap.shared:
        return "(shared by its namespaces)"
    return "of this namespace"


def _hard(hard: Amounts, name: str) -> str:
    return format_amount(name, hard[name]) if name in hard else "none"
