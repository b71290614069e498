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
from webhook.policy.coverage import is_every_user, is_selector_satisfiable
from webhook.policy.finding import LintFinding
from webhook.policy.formats import PODS_RESOURCE
from webhook.policy.lint_rules import explain_empty_namespaces
from webhook.policy.model import NamespaceCap
from webhook.policy.nodes import joined
from webhook.policy.remark import FieldProblem, create_error, create_finding, create_warning


def lint_cap(cap: NamespaceCap) -> Iterator[LintFinding]:
    """Findings about one cap."""
    for problem in (*_check_cap_match(cap), *_check_cap_amounts(cap), *_check_soft_limits(cap)):
        yield create_finding(cap, problem)


def _check_cap_match(cap: NamespaceCap) -> Iterator[FieldProblem]:
    explanation = explain_empty_namespaces(cap.namespaces)
    if explanation:
        yield create_error("spec.namespaces", MATCHES_NOTHING, explanation)
    if not is_selector_satisfiable(cap.pods.objects):
        text = "no labels satisfy the selector; remove the requirement that contradicts another"
        yield create_error("spec.pods.objects", MATCHES_NOTHING, text)
    if is_every_user(cap.exceed):
        text = "everybody may go over it; name the groups that may break the glass"
        yield create_warning("spec.exceed", CHECKS_NOTHING, text)


def _check_cap_amounts(cap: NamespaceCap) -> Iterator[FieldProblem]:
    for field, amounts in (("spec.hard", cap.hard), ("spec.soft", cap.soft)):
        for name, quantity in amounts.items():
            yield from _check_cap_amount(joined(field, name), name, quantity)


def _check_cap_amount(field: str, name: str, quantity: Quantity) -> Iterator[FieldProblem]:
    resource = name.removeprefix(LIMITS_PREFIX)
    if not quantity.is_whole and (resource == PODS_RESOURCE or is_countable(resource)):
        text = f"{quantity} is a fraction of what is counted in whole units; write {quantity.value()}"
        yield create_error(field, FRACTIONAL, text)
    if name != resource and classify_name(resource) is Family.EXTENDED:
        yield create_warning(
            field, SAME_AS_PLAIN, f"the limit of an extended resource is always its request; write {resource}"
        )


def _check_soft_limits(cap: NamespaceCap) -> Iterator[FieldProblem]:
    for name, soft in cap.soft.items():
        hard = cap.hard.get(name)
        if hard is None or soft < hard:
            continue
        create_problem, relation = (create_error, "above") if soft > hard else (create_warning, "the same as")
        text = f"{soft} is {relation} hard {hard}, so it never warns; write less than {hard}"
        yield create_problem(joined("spec.soft", name), SOFT_OVER_HARD, text)


def lint_redundant_caps(caps: tuple[NamespaceCap, ...]) -> Iterator[LintFinding]:
    """Caps that another one on the same pods of the same namespaces makes superfluous."""
    groups: dict[str, list[NamespaceCap]] = {}
    for cap in caps:
        groups.setdefault(repr((cap.namespaces, cap.pods, cap.shared)), []).append(cap)
    for group in groups.values():
        for index, cap in enumerate(group):
            covering = next((earlier for earlier in group[:index] if _is_as_strict(earlier, cap)), None)
            if covering is not None:
                text = (
                    f'never decides: cap "{covering.name}" ({covering.location}) is as small on the same pods; '
                    "remove one"
                )
                yield create_finding(cap, create_warning("", SHADOWED, text))


def _is_as_strict(tight: NamespaceCap, loose: NamespaceCap) -> bool:
    """Whether the first refuses and warns wherever the second would."""
    return (
        all(name in tight.hard and tight.hard[name] <= limit for name, limit in loose.hard.items())
        and all(name in tight.soft and tight.soft[name] <= most for name, most in loose.soft.items())
        and tight.exceed == loose.exceed
    )
