"""What is wrong with caps, one by one and together."""

from collections.abc import Iterator

from webhook.accounting.names import LIMITS_PREFIX, Family, family, is_countable
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
from webhook.policy.finding import Finding, Severity
from webhook.policy.formats import PODS
from webhook.policy.lint_rules import Said, empty_namespaces
from webhook.policy.model import NamespaceCap


def lint_cap(cap: NamespaceCap) -> Iterator[Finding]:
    """Findings about one cap."""
    for code, severity, message in (*_matching(cap), *_amounts(cap), *_soft(cap)):
        yield Finding.at(cap.source, code, severity, f'cap "{cap.name}": {message}')


def _matching(cap: NamespaceCap) -> Iterator[Said]:
    why = empty_namespaces(cap.namespaces)
    if why:
        yield MATCHES_NOTHING, Severity.ERROR, f"namespaces: {why}"
    if not selects_something(cap.pods.objects):
        said = "pods.objects: no labels satisfy the selector; remove the requirement that contradicts another"
        yield MATCHES_NOTHING, Severity.ERROR, said
    if is_everybody(cap.exceed):
        said = "exceed: everybody may go over it; name the groups that may break the glass"
        yield CHECKS_NOTHING, Severity.WARNING, said


def _amounts(cap: NamespaceCap) -> Iterator[Said]:
    for where, amounts in (("hard", cap.hard), ("soft", cap.soft)):
        for name, quantity in amounts.items():
            yield from _amount(f"{where}: {name}", name, quantity)


def _amount(field: str, name: str, quantity: Quantity) -> Iterator[Said]:
    counted = name.removeprefix(LIMITS_PREFIX)
    if not quantity.is_whole and (counted == PODS or is_countable(counted)):
        said = f"{field}: {quantity} is a fraction of what is counted in whole units; write {quantity.value()}"
        yield FRACTIONAL, Severity.ERROR, said
    if name != counted and family(counted) is Family.EXTENDED:
        said = f"{field}: the limit of an extended resource is always its request; write {counted}"
        yield SAME_AS_PLAIN, Severity.WARNING, said


def _soft(cap: NamespaceCap) -> Iterator[Said]:
    for name, soft in cap.soft.items():
        hard = cap.hard.get(name)
        if hard is None or soft < hard:
            continue
        relation, severity = ("above", Severity.ERROR) if soft > hard else ("the same as", Severity.WARNING)
        said = f"soft: {name}: {soft} is {relation} hard {hard}, so it never warns; write less than {hard}"
        yield SOFT_OVER_HARD, severity, said


def lint_caps(caps: tuple[NamespaceCap, ...]) -> Iterator[Finding]:
    """Caps that another one on the same pods of the same namespaces makes superfluous."""
    groups: dict[str, list[NamespaceCap]] = {}
    for cap in caps:
        groups.setdefault(repr((cap.namespaces, cap.pods, cap.shared)), []).append(cap)
    for group in groups.values():
        for at, cap in enumerate(group):
            wide = next((earlier for earlier in group[:at] if _decides(earlier, cap)), None)
            if wide is not None:
                said = f'never decides: cap "{wide.name}" ({wide.source}) is as small on the same pods; remove one'
                yield Finding.at(cap.source, SHADOWED, Severity.WARNING, f'cap "{cap.name}": {said}')


def _decides(tight: NamespaceCap, loose: NamespaceCap) -> bool:
    """Whether the first refuses and warns wherever the second would."""
    return (
        all(name in tight.hard and tight.hard[name] <= most for name, most in loose.hard.items())
        and all(name in tight.soft and tight.soft[name] <= most for name, most in loose.soft.items())
        and tight.exceed == loose.exceed
    )
