"""Lint of a policy set: well-formed policies that cannot be intended.

Errors are rules and caps that no request can match or satisfy; they prevent the use of the set. Warnings are legal and
probably mistakes. Each finding has the location of its field.

The checks cover each rule, each cap, caps and rules in pairs, and resource names that are probably misspelt: similar to
a well-known name, or spelt differently elsewhere in the set.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from tallygate.webhook.accounting.names import LIMITS_PREFIX, Family, classify_name, is_countable
from tallygate.webhook.accounting.quantity import Quantity
from tallygate.webhook.documents.syntax_tree import join_path
from tallygate.webhook.policy.coverage import (
    find_min_allowed,
    is_allowed_amount,
    is_countable_pattern,
    is_every_user,
    is_selector_satisfiable,
    list_excluded,
    list_included,
    namespaces_overlap,
    pattern_covers,
)
from tallygate.webhook.policy.formats import PODS_RESOURCE
from tallygate.webhook.policy.globs import is_literal
from tallygate.webhook.policy.lint_findings import (
    FieldProblem,
    LintFinding,
    create_error,
    create_finding,
    create_warning,
)
from tallygate.webhook.policy.lint_pairs import lint_pairs
from tallygate.webhook.policy.matching import FAMILY_PATTERNS
from tallygate.webhook.policy.model import (
    AmountBounds,
    Checks,
    Equality,
    NamespaceCap,
    NamespaceSelector,
    PolicySet,
    ResourceRule,
)
from tallygate.webhook.policy.policy_codes import (
    CHECK_WITHOUT_KIND,
    CHECKS_NOTHING,
    FRACTIONAL,
    IMPOSSIBLE_BOUNDS,
    MATCHES_NOTHING,
    MISSPELT_RESOURCE,
    REPEATED,
    SAME_AS_PLAIN,
    SHADOWED,
    SOFT_OVER_HARD,
)
from tallygate.webhook.policy.suggest import WELL_KNOWN_RESOURCES, suggest_resource

_KINDS_WITHOUT_PODS = frozenset({"Node", "ResourceQuota", "LimitRange"})


def lint_policies(policies: PolicySet) -> tuple[LintFinding, ...]:
    """Return every finding about a set, sorted by location."""
    findings = {
        *(finding for rule in policies.rules for finding in lint_rule(rule)),
        *(finding for cap in policies.caps for finding in lint_cap(cap)),
        *lint_pairs(policies.rules),
        *lint_redundant_caps(policies.caps),
        *lint_names(policies),
    }
    return tuple(sorted(findings))


def lint_rule(rule: ResourceRule, invalid_sections: frozenset[str] = frozenset()) -> Iterator[LintFinding]:
    """Yield the findings about one rule.

    Fields below `invalid_sections`, as in `match`, were left out because of errors: no finding depends on them.
    """
    excluded = invalid_sections | ({"checks"} if invalid_sections & {"resources", "match"} else set())
    for problem in (*_check_rule_match(rule), *_check_rule_checks(rule), *_check_rule_bounds(rule)):
        if _get_section(problem) not in excluded:
            yield create_finding(rule, problem)


def _get_section(problem: FieldProblem) -> str:
    """Return the field below `spec` that a problem belongs to."""
    return re.split(r"[.\[]", problem.field.removeprefix("spec."), maxsplit=1)[0]


def explain_empty_namespaces(selector: NamespaceSelector | None) -> str:
    """Return the reason why a selector can select no namespace, or an empty text."""
    if selector is None:
        return ""
    if not is_selector_satisfiable(selector.selector):
        return "no labels satisfy the selector; remove the requirement that contradicts another"
    if not namespaces_overlap(selector, selector):
        return "exclude takes out everything that include lists; narrow exclude"
    return ""


def _check_rule_match(rule: ResourceRule) -> Iterator[FieldProblem]:
    """Yield the reasons why no request can match the rule."""
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
        yield _create_matches_nothing("match.objectSelector", "no labels satisfy the selector; remove what contradicts")
    if is_every_user(rule.match.exempt):
        yield _create_matches_nothing("match.exempt", "everybody is exempt; name the groups that shall be")


def _create_matches_nothing(field: str, text: str) -> FieldProblem:
    return create_error(f"spec.{field}", MATCHES_NOTHING, text)


def _check_rule_checks(rule: ResourceRule) -> Iterator[FieldProblem]:
    """Yield a warning if all checks are off, and for each check that applies to no kind of the rule."""
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
    """Yield the enabled checks that apply to pods only."""
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
    """Yield the problems of bounds that contradict themselves or one another."""
    container, pod = rule.checks.per_container, rule.checks.per_pod
    countable = all(is_countable_pattern(pattern) for pattern in list_included(rule.resources))
    for field, bounds in (("spec.checks.perContainer", container), ("spec.checks.perPod", pod)):
        if bounds is not None:
            yield from _check_bounds(field, bounds)
            yield from _check_fractions(field, bounds) if countable else ()
    min_allowed = find_min_allowed((container,)) if container is not None else None
    if pod is not None and pod.max is not None and min_allowed is not None and min_allowed > pod.max:
        text = f"{pod.max} is less than the minimum that one container must request, {min_allowed}; raise it"
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
    """Yield the values of `oneOf` that the other bounds exclude, or that are duplicates."""
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


def lint_cap(cap: NamespaceCap, invalid_sections: frozenset[str] = frozenset()) -> Iterator[LintFinding]:
    """Yield the findings about one cap; `invalid_sections` as for rules, but each amount is checked by itself."""
    matching = (each for each in _check_cap_match(cap) if _get_section(each) not in invalid_sections)
    for problem in (*matching, *_check_cap_amounts(cap), *_check_soft_limits(cap)):
        yield create_finding(cap, problem)


def _check_cap_match(cap: NamespaceCap) -> Iterator[FieldProblem]:
    explanation = explain_empty_namespaces(cap.namespaces)
    if explanation:
        yield create_error("spec.namespaces", MATCHES_NOTHING, explanation)
    if not is_selector_satisfiable(cap.pods.objects):
        text = "no labels satisfy the selector; remove the requirement that contradicts another"
        yield create_error("spec.pods.objectSelector", MATCHES_NOTHING, text)
    if is_every_user(cap.exceed):
        text = "everybody may go over it; name the groups that may break the glass"
        yield create_warning("spec.exceed", CHECKS_NOTHING, text)


def _check_cap_amounts(cap: NamespaceCap) -> Iterator[FieldProblem]:
    for field, amounts in (("spec.hard", cap.hard), ("spec.soft", cap.soft)):
        for name, quantity in amounts.items():
            yield from _check_cap_amount(join_path(field, name), name, quantity)


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
        yield create_problem(join_path("spec.soft", name), SOFT_OVER_HARD, text)


def lint_redundant_caps(caps: tuple[NamespaceCap, ...]) -> Iterator[LintFinding]:
    """Yield a warning for each cap that another one on the same pods of the same namespaces makes redundant."""
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
    """Return whether the first cap denies and warns wherever the second one does."""
    return (
        all(name in tight.hard and tight.hard[name] <= limit for name, limit in loose.hard.items())
        and all(name in tight.soft and tight.soft[name] <= limit for name, limit in loose.soft.items())
        and tight.exceed == loose.exceed
    )


@dataclass(frozen=True, slots=True)
class _ResourceUse:
    """One field of a policy that names a resource."""

    name: str
    policy: ResourceRule | NamespaceCap
    field: str


def lint_names(policies: PolicySet) -> Iterator[LintFinding]:
    """Yield a warning for each name that is probably a misspelling of another one."""
    uses = list(_list_uses(policies))
    respellings = _find_respellings(uses)
    for use in uses:
        suggestion = _suggest_well_known(use.name) or respellings.get(use.name)
        if suggestion is not None:
            text = f'did you mean "{suggestion}" instead of "{use.name}"?'
            yield create_finding(use.policy, create_warning(use.field, MISSPELT_RESOURCE, text))


def _list_uses(policies: PolicySet) -> Iterator[_ResourceUse]:
    for rule in policies.rules:
        for index, name in enumerate(rule.resources):
            if is_literal(name) and name not in FAMILY_PATTERNS and not name.startswith("!"):
                yield _ResourceUse(name, rule, f"spec.resources[{index}]")
    for cap in policies.caps:
        for field, amounts in (("spec.hard", cap.hard), ("spec.soft", cap.soft)):
            for name in amounts:
                resource = name.removeprefix(LIMITS_PREFIX)
                if resource != PODS_RESOURCE:
                    yield _ResourceUse(resource, cap, join_path(field, name))


def _suggest_well_known(name: str) -> str | None:
    """Return the well-known name whose misspelling this name probably is, or None.

    Names that differ by digits only are members of one family.
    """
    suggestion = suggest_resource(name, WELL_KNOWN_RESOURCES)
    return None if suggestion is None or _remove_digits(suggestion) == _remove_digits(name) else suggestion


def _remove_digits(name: str) -> str:
    return re.sub(r"[0-9]+", "", name)


def _find_respellings(uses: list[_ResourceUse]) -> dict[str, str]:
    """Return, for each name that is rarer than another one of the same letters, that other name."""
    uses_by_name = Counter(use.name for use in uses)
    by_letters: dict[str, set[str]] = {}
    for name in uses_by_name:
        by_letters.setdefault(_normalize_spelling(name), set()).add(name)
    return {
        name: most_used
        for names in by_letters.values()
        for most_used in [max(names, key=lambda spelling: (uses_by_name[spelling], spelling))]
        for name in names
        if uses_by_name[name] < uses_by_name[most_used]
    }


def _normalize_spelling(name: str) -> str:
    """Return a name without its frequent variations: case, separators, a plural."""
    domain, _, rest = name.lower().rpartition("/")
    return f"{domain}/{re.sub('[-_.]', '', rest).removesuffix('s')}"
