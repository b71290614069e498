"""What a cap says to the person at the terminal: the arithmetic of a refusal, and the warning above a soft cap."""

from collections.abc import Iterator

from webhook.accounting.amounts import Amounts, shown
from webhook.accounting.problem import Problem, Reason
from webhook.admission.codes import NO_LIMIT_UNDER_CAP, OVER_CAP, OVER_SOFT_CAP
from webhook.gate.charging import Asked, Booked


def refusals(booked: Booked) -> Iterator[Problem]:
    """One problem for each name that goes over."""
    cap = booked.asked.counted.cap
    held, promised = booked.before.tally, booked.before.promised
    for name in sorted(booked.excess):
        hard = booked.asked.counted.hard[name]
        asks = booked.asked.new.get(name, 0) - booked.asked.old.get(name, 0)
        free = max(hard - held.get(name, 0) - promised.get(name, 0), 0)
        advice = f"ask for {shown(name, free)} or less, or wait until pods end" if free else "wait until pods end"
        yield Problem(
            "",
            OVER_CAP.number,
            Reason.FORBIDDEN,
            f"asks {shown(name, asks)} {name}, cap {cap.name} {_scope(booked)} holds "
            f"{shown(name, held.get(name, 0))} of {shown(name, hard)}, {shown(name, promised.get(name, 0))} promised, "
            f"free {shown(name, free)}: {advice}",
            value=shown(name, asks),
            rule=cap.name,
            by="cap",
        )


def soft_warnings(booked: Booked) -> Iterator[Problem]:
    """One warning for each name that the ask takes over the soft part of the cap."""
    counted = booked.asked.counted
    charged, before = booked.ledger.charged(), booked.before.charged()
    over, grows = charged.over(counted.soft), charged.short_of(before)
    for name in sorted(over.keys() & grows.keys()):
        yield Problem(
            "",
            OVER_SOFT_CAP.number,
            Reason.FORBIDDEN,
            f"cap {counted.cap.name} {_scope(booked)} is at {shown(name, charged[name])} {name}, above its soft "
            f"{shown(name, counted.soft[name])} (hard {_hard(counted.hard, name)})",
            rule=counted.cap.name,
            by="cap",
        )


def exceeded(booked: Booked) -> bool:
    """Whether a privileged user has just gone over the cap."""
    return booked.asked.exceeds and bool(booked.ledger.charged().over(booked.asked.counted.hard))


def no_limit(asked: Asked, counted: str, containers: tuple[str, ...]) -> Problem:
    """The refusal of a pod that sets no limit where a cap counts limits."""
    cap = asked.counted.cap.name
    return Problem(
        "spec.containers",
        NO_LIMIT_UNDER_CAP.number,
        Reason.REQUIRED,
        f"cap {cap} counts {counted}, and there is no such limit on {', '.join(containers)}: set one",
        rule=cap,
        by="cap",
    )


def _scope(booked: Booked) -> str:
    if booked.asked.counted.cap.shared:
        return "(shared by its namespaces)"
    return "of this namespace"


def _hard(hard: Amounts, name: str) -> str:
    return shown(name, hard[name]) if name in hard else "none"
