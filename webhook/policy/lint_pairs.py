"""Lint of two rules together: a redundant rule, or two rules that no request can satisfy."""

from collections.abc import Iterator

from tallygate.webhook.policy.coverage import (
    can_share_request,
    find_min_allowed,
    list_included,
    match_covers,
    resources_cover,
    resources_overlap,
)
from tallygate.webhook.policy.globs import is_literal
from tallygate.webhook.policy.lint_findings import LintFinding, create_error, create_finding, create_warning
from tallygate.webhook.policy.model import AmountBounds, Checks, Enforcement, Equality, ResourceRule
from tallygate.webhook.policy.policy_codes import CONTRADICTORY, SHADOWED

_ENFORCEMENTS_BY_STRICTNESS = (Enforcement.AUDIT, Enforcement.WARN, Enforcement.DENY)
_ANY_DOMAIN = ""
_CONTAINER_FIELD, _POD_FIELD = "spec.checks.perContainer", "spec.checks.perPod"


def lint_pairs(rules: tuple[ResourceRule, ...]) -> Iterator[LintFinding]:
    """Yield the findings about each two rules that may apply to one resource."""
    shadowed: set[str] = set()
    for first, second in _list_comparable_pairs(rules):
        for narrow, wide in _find_shadowing(first, second):
            if narrow.name not in shadowed:
                shadowed.add(narrow.name)
                text = f'says nothing that rule "{wide.name}" ({wide.location}) does not say already; remove one'
                yield create_finding(narrow, create_warning("", SHADOWED, text))
        yield from _find_contradiction(first, second)


def _list_comparable_pairs(rules: tuple[ResourceRule, ...]) -> Iterator[tuple[ResourceRule, ResourceRule]]:
    """Yield each two rules, except those on different domains.

    A thousand rules for as many vendors are therefore fast.
    """
    by_domain: dict[str, list[int]] = {}
    for index, rule in enumerate(rules):
        domains = _list_domains(rule)
        earlier_rules = {earlier for domain in (*domains, _ANY_DOMAIN) for earlier in by_domain.get(domain, ())}
        yield from (
            (rules[earlier], rule) for earlier in (range(index) if _ANY_DOMAIN in domains else sorted(earlier_rules))
        )
        for domain in domains:
            by_domain.setdefault(domain, []).append(index)


def _list_domains(rule: ResourceRule) -> set[str]:
    """Return the domains of a rule's resources; a pattern over several domains counts as any domain."""
    domains = (pattern.partition("/") for pattern in list_included(rule.resources))
    return {domain if slash and is_literal(domain) else _ANY_DOMAIN for domain, slash, _ in domains}


def _find_shadowing(first: ResourceRule, second: ResourceRule) -> Iterator[tuple[ResourceRule, ResourceRule]]:
    """Yield the redundant rule and the rule that covers it; of two equal rules the later one is redundant."""
    for narrow, wide in ((second, first), (first, second)):
        if _is_shadowing(wide, narrow):
            yield narrow, wide
            return


def _is_shadowing(wide: ResourceRule, narrow: ResourceRule) -> bool:
    return (
        bool(list_included(narrow.resources))
        and _ENFORCEMENTS_BY_STRICTNESS.index(wide.enforcement) >= _ENFORCEMENTS_BY_STRICTNESS.index(narrow.enforcement)
        and _checks_imply(wide.checks, narrow.checks)
        and match_covers(wide.match, narrow.match)
        and resources_cover(wide.resources, narrow.resources)
    )


def _checks_imply(strict: Checks, lax: Checks) -> bool:
    """Return whether an object that passes the strict checks passes the lax ones, and is filled in likewise."""
    return (
        (strict.well_formed_name or not lax.well_formed_name)
        and _rank_whole_quantity(strict) >= _rank_whole_quantity(lax)
        and _equality_implies(strict.requests_equal_limits, lax.requests_equal_limits)
        and _bounds_imply(strict.per_container, lax.per_container)
        and _bounds_imply(strict.per_pod, lax.per_pod)
        and (strict.advertised or not lax.advertised)
        and lax.schedulable in {None, strict.schedulable}
    )


def _rank_whole_quantity(checks: Checks) -> int:
    """Return 0 if the check is off, 1 if it applies to countable resources, 2 if it applies to all."""
    return {False: 0, None: 1, True: 2}[checks.whole_quantity]


def _equality_implies(strict: Equality | None, lax: Equality | None) -> bool:
    if Equality.FILL in {strict, lax}:
        return strict is lax or lax is Equality.IGNORE
    return lax in {Equality.IGNORE, strict} or strict is Equality.REQUIRE


def _bounds_imply(strict: AmountBounds | None, lax: AmountBounds | None) -> bool:
    if lax is None or lax == strict:
        return True
    if strict is None:
        return False
    return (
        (lax.min is None or (strict.min is not None and strict.min >= lax.min))
        and (lax.max is None or (strict.max is not None and strict.max <= lax.max))
        and lax.multiple_of in {None, strict.multiple_of}
        and (not lax.one_of or (bool(strict.one_of) and set(strict.one_of) <= set(lax.one_of)))
    )


def _find_contradiction(first: ResourceRule, second: ResourceRule) -> Iterator[LintFinding]:
    """Yield an error if the scope of one rule contains the other's, else a warning: no request may match both."""
    if not (_has_shown_bounds(first) and _has_shown_bounds(second)) or not can_share_request(first.match, second.match):
        return
    if not resources_overlap(first.resources, second.resources):
        return
    second_field, first_field = _find_unsatisfiable(second.checks, first.checks)
    if not second_field:
        return
    always_overlap = match_covers(first.match, second.match) or match_covers(second.match, first.match)
    denied = first.enforcement is second.enforcement is Enforcement.DENY
    create_problem = create_error if always_overlap and denied else create_warning
    text = (
        f'no amount satisfies both this and rule "{first.name}" ({first.get_location(first_field)}); narrow one of them'
    )
    yield create_finding(second, create_problem(second_field, CONTRADICTORY, text))


def _has_shown_bounds(rule: ResourceRule) -> bool:
    """Return whether the rule shows its bounds to users."""
    has_bounds = rule.checks.per_container is not None or rule.checks.per_pod is not None
    return has_bounds and rule.enforcement is not Enforcement.AUDIT


def _find_unsatisfiable(checks: Checks, other_checks: Checks) -> tuple[str, str]:
    """Return the fields of both that no amount satisfies, or empty texts.

    Other checks report bounds that are impossible on their own.
    """
    if _is_contradictory(checks.per_container, other_checks.per_container):
        return _CONTAINER_FIELD, _CONTAINER_FIELD
    if _is_contradictory(checks.per_pod, other_checks.per_pod):
        return _POD_FIELD, _POD_FIELD
    if _exceeds_pod_max(checks.per_container, other_checks.per_pod):
        return _CONTAINER_FIELD, _POD_FIELD
    return (_POD_FIELD, _CONTAINER_FIELD) if _exceeds_pod_max(other_checks.per_container, checks.per_pod) else ("", "")


def _is_prohibition(bounds: AmountBounds) -> bool:
    """Return whether the bounds allow zero only: such a prohibition next to another rule is intentional."""
    return bounds.max is not None and bounds.max.sign == 0


def _is_contradictory(bounds: AmountBounds | None, other_bounds: AmountBounds | None) -> bool:
    """Return whether an amount satisfies each of the bounds, but none satisfies both."""
    if bounds is None or other_bounds is None or _is_prohibition(bounds) or _is_prohibition(other_bounds):
        return False
    is_each_satisfiable = find_min_allowed((bounds,)) is not None and find_min_allowed((other_bounds,)) is not None
    return is_each_satisfiable and find_min_allowed((bounds, other_bounds)) is None


def _exceeds_pod_max(container: AmountBounds | None, pod: AmountBounds | None) -> bool:
    """Return whether one container must request more than a pod may request."""
    if container is None or pod is None or pod.max is None or _is_prohibition(pod):
        return False
    min_allowed = find_min_allowed((container,))
    return min_allowed is not None and min_allowed > pod.max
