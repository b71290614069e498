"""What is wrong with one rule by itself."""

from collections.abc import Iterator

from webhook.accounting.quantity import Quantity
from webhook.policy.amounts_allowed import find_min_allowed, is_allowed_amount
from webhook.policy.codes import (
    CHECK_WITHOUT_KIND,
    CHECKS_NOTHING,
    FRACTIONAL,
    IMPOSSIBLE_BOUNDS,
    MATCHES_NOTHING,
    REPEATED,
)
from webhook.policy.coverage import (
    is_countable_pattern,
    is_every_user,
    is_selector_satisfiable,
    list_excluded,
    list_included,
    namespaces_overlap,
    pattern_covers,
)
from webhook.policy.finding import LintFinding
from webhook.policy.model import AmountBounds, Checks, Equality, NamespaceSelector, ResourceRule
from webhook.policy.remark import FieldProblem, create_error, create_finding, create_warning

_KINDS_WITHOUT_PODS = frozenset({"Node", "ResourceQuota", "LimitRange"})


def lint_rule(rule: ResourceRule) -> Iterator[LintFinding]:
    """Findings about one rule."""
    for problem in (*_check_rule_match(rule), *_check_rule_checks(rule), *_check_rule_bounds(rule)):
        yield create_finding(rule, problem)


def explain_empty_namespaces(selector: NamespaceSelector | None) -> str:
    """Why no namespace can be selected, or nothing."""
    if selector is None:
        return ""
    if not is_selector_satisfiable(selector.selector):
        return "no labels satisfy the selector; remove the requirement that contradicts another"
    if not namespaces_overlap(selector, selector):
        return "exclude takes out everything that include lists; narrow exclude"
    return ""


def _check_rule_match(rule: ResourceRule) -> Iterator[FieldProblem]:
    """Why nothing can ever meet the rule."""
    included, excluded = list_included(rule.resources), list_excluded(rule.resources)
    if not included:
        yield _create_matches_nothing(
            "resources", 'only exclusions, so no resource is left; put "*" or a family before them'
        )
    elif all(any(pattern_covers(exclusion, pattern) for exclusion in excluded) for pattern in included):
        yield _create_matches_nothing(
            "resources", "everything that is included is excluded again; narrow the patterns with !"
        )
    explanation = explain_empty_namespaces(rule.match.namespaces)
    if explanation:
        yield _create_matches_nothing("match.namespaces", explanation)
    if rule.match.namespaces is not None and rule.match.kinds == frozenset({"Node"}):
        yield _create_matches_nothing(
            "match.namespaces", "nodes are in no namespace; remove this, or name another kind"
        )
    if not is_selector_satisfiable(rule.match.object_selector):
        yield _create_matches_nothing("match.objects", "no labels satisfy the selector; remove what contradicts")
    if is_every_user(rule.match.exempt):
        yield _create_matches_nothing("match.exceptFor", "everybody is exempt; name the groups that shall be")


def _create_matches_nothing(field: str, text: str) -> FieldProblem:
    return create_error(f"spec.{field}", MATCHES_NOTHING, text)


def _check_rule_checks(rule: ResourceRule) -> Iterator[FieldProblem]:
    """Checks that are all off, or that no kind of the rule can be judged by."""
    checks = rule.checks
    enabled = (
        checks.well_formed_name,
        checks.whole_quantity is not False,
        checks.requests_equal_limits != Equality.IGNORE,
    )
    if not any((*enabled, checks.per_container, checks.per_pod, checks.advertised, checks.schedulable)):
        yield create_warning(
            "spec.checks", CHECKS_NOTHING, "every check is switched off; switch one on or remove the rule"
        )
    if rule.match.kinds is not None and rule.match.kinds <= _KINDS_WITHOUT_PODS:
        kinds = " and ".join(sorted(rule.match.kinds))
        verb = "has" if len(rule.match.kinds) == 1 else "have"
        text = f"{kinds} {verb} no containers, so this is never judged; add Pod to match.kinds"
        yield from (
            create_warning(f"spec.checks.{field}", CHECK_WITHOUT_KIND, text) for field in _list_pod_checks(checks)
        )


def _list_pod_checks(checks: Checks) -> Iterator[str]:
    """The checks, of those asked for, that are about pods only."""
    if checks.requests_equal_limits in {Equality.REQUIRE, Equality.FILL}:
        yield "requestsEqualLimits"
    if checks.per_container is not None:
        yield "perContainer"
    if checks.per_pod is not None:
        yield "perPod"
    if checks.advertised:
        yield "advertised"
    if checks.schedulable is not None:
        yield "schedulable"


def _check_rule_bounds(rule: ResourceRule) -> Iterator[FieldProblem]:
    """Bounds that contradict themselves or one another."""
    container, pod = rule.checks.per_container, rule.checks.per_pod
    countable = all(is_countable_pattern(pattern) for pattern in list_included(rule.resources))
    for field, bounds in (("spec.checks.perContainer", container), ("spec.checks.perPod", pod)):
        if bounds is not None:
            yield from _check_bounds(field, bounds)
            yield from _check_fractions(field, bounds) if countable else ()
    min_allowed = find_min_allowed((container,)) if container is not None else None
    if pod is not None and pod.max is not None and min_allowed is not None and min_allowed > pod.max:
        text = f"{pod.max} is less than the least that one container must ask for, {min_allowed}; raise it"
        yield create_error("spec.checks.perPod.max", IMPOSSIBLE_BOUNDS, text)


def _check_bounds(field: str, bounds: AmountBounds) -> Iterator[FieldProblem]:
    if bounds.multiple_of is not None and bounds.multiple_of.sign == 0:
        yield create_error(f"{field}.multipleOf", IMPOSSIBLE_BOUNDS, "nothing is a multiple of 0; write 1 or more")
    elif bounds.min is not None and bounds.max is not None and bounds.min > bounds.max:
        text = f"{bounds.min} is above max {bounds.max}; swap them"
        yield create_error(f"{field}.min", IMPOSSIBLE_BOUNDS, text)
    elif find_min_allowed((bounds,)) is None:
        yield create_error(field, IMPOSSIBLE_BOUNDS, "no amount satisfies all of these bounds; loosen one")
    else:
        yield from _check_choices(field, bounds)


def _check_choices(field: str, bounds: AmountBounds) -> Iterator[FieldProblem]:
    """Values of `oneOf` that the other bounds forbid, or that stand there twice."""
    for index, choice in enumerate(bounds.one_of):
        choice_path = f"{field}.oneOf[{index}]"
        if not is_allowed_amount(bounds, choice):
            text = f"{choice} is outside the other bounds; remove it or loosen them"
            yield create_warning(choice_path, IMPOSSIBLE_BOUNDS, text)
        if choice in bounds.one_of[:index]:
            yield create_warning(choice_path, REPEATED, f"{choice} stands there twice; remove one")


def _check_fractions(field: str, bounds: AmountBounds) -> Iterator[FieldProblem]:
    amounts: list[tuple[str, Quantity | None]] = [
        ("min", bounds.min),
        ("max", bounds.max),
        ("multipleOf", bounds.multiple_of),
        *((f"oneOf[{index}]", choice) for index, choice in enumerate(bounds.one_of)),
    ]
    for name, quantity in amounts:
        if quantity is not None and not quantity.is_whole:
            text = f"{quantity} is a fraction of what is counted in whole units; write a whole number"
            yield create_warning(f"{field}.{name}", FRACTIONAL, text)
