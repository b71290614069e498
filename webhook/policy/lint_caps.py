"""What is wrong with caps, one by one and together."""

from collections.abc import Iterator

from webhook.accounting.names import LIMITS_PREFIX, Family, classify_name, is_countable
from webhook.accounting.quantity import Quantity
from webhook.policy.codes import (
    CHECKS_NOTHING,
    FRACTIONAL,
    MATCHES_NOTHING,
    SAME_AS_PLAIN,
    SHADOWED,
    SOFT_OVER_HARD,
)
from webhook.policy.coverage import is_everybody, selects_something
from webhook.policy.finding import Finding
from webhook.policy.formats import PODS
from webhook.policy.lint_rules import empty_namespaces
from webhook.policy.model import NamespaceCap
from webhook.policy.nodes import joined
from webhook.policy.remark import Remark, error, finding, warning


def lint_cap(cap: NamespaceCap) -> Iterator[Finding]:
    """Findings about one cap."""
    for remark in (*_matching(cap), *_amounts(cap), *_soft(cap)):
        yield finding(cap, remark)


def _matching(cap: NamespaceCap) -> Iterator[Remark]:
    why = empty_namespaces(cap.namespaces)
    if why:
        yield error("spec.namespaces", MATCHES_NOTHING, why)
    if not selects_something(cap.pods.objects):
        text = "no labels satisfy the selector; remove the requirement that contradicts another"
        yield error("spec.pods.objects", MATCHES_NOTHING, text)
    if is_everybody(cap.exceed):
        text = "everybody may go over it; name the groups that may break the glass"
        yield warning("spec.exceed", CHECKS_NOTHING, text)


def _amounts(cap: NamespaceCap) -> Iterator[Remark]:
    for where, amounts in (("spec.hard", cap.hard), ("spec.soft", cap.soft)):
        for name, quantity in amounts.items():
            yield from _amount(joined(where, name), name, quantity)


def _amount(field: str, name: str, quantity: Quantity) -> Iterator[Remark]:
    counted = name.removeprefix(LIMITS_PREFIX)
    if not quantity.is_whole and (counted == PODS or is_countable(counted)):
        text = f"{quantity} is a fraction of what is counted in whole units; write {quantity.value()}"
        yield error(field, FRACTIONAL, text)
    if name != counted and classify_name(counted) is Family.EXTENDED:
        yield warning(field, SAME_AS_PLAIN, f"the limit of an extended resource is always its request; write {counted}")


def _soft(cap: NamespaceCap) -> Iterator[Remark]:
    for name, soft in cap.soft.items():
        hard = cap.hard.get(name)
        if hard is None or soft < hard:
            continue
        say, relation = (error, "above") if soft > hard else (warning, "the same as")
        text = f"{soft} is {relation} hard {hard}, so it never warns; write less than {hard}"
        yield say(joined("spec.soft", name), SOFT_OVER_HARD, text)


def lint_caps(caps: tuple[NamespaceCap, ...]) -> Iterator[Finding]:
    """Caps that another one on the same pods of the same namespaces makes superfluous."""
    groups: dict[str, list[NamespaceCap]] = {}
    for cap in caps:
        groups.setdefault(repr((cap.namespaces, cap.pods, cap.shared)), []).append(cap)
    for group in groups.values():
        for at, cap in enumerate(group):
            wide = next((earlier for earlier in group[:at] if _decides(earlier, cap)), None)
            if wide is not None:
                text = f'never decides: cap "{wide.name}" ({wide.source}) is as small on the same pods; remove one'
                yield finding(cap, warning("", SHADOWED, text))


def _decides(tight: NamespaceCap, loose: NamespaceCap) -> bool:
    """Whether the first refuses and warns wherever the second would."""
    return (
        all(name in tight.hard and tight.hard[name] <= most for name, most in loose.hard.items())
        and all(name in tight.soft and tight.soft[name] <= most for name, most in loose.soft.items())
        and tight.exceed == loose.exceed
    )
