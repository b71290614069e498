"""Lint of policies together: redundant rules and caps, rules that no request can satisfy, and misspelt names."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tallygate.accounting.names import LIMITS_PREFIX
from tallygate.documents.syntax_tree import join_path
from tallygate.policy import coverage, model
from tallygate.policy.cap_limits import CapLimit, describe_limit, is_never_above
from tallygate.policy.comparison_effort import (
    MATCH_STEPS,
    Effort,
    TooManyStepsError,
    measure_globs,
    measure_match,
    measure_namespaces,
)
from tallygate.policy.deadlines import DeadlineChecks
from tallygate.policy.formats import PODS_RESOURCE
from tallygate.policy.globs import is_literal
from tallygate.policy.lint_findings import LintFinding, create_error, create_finding, create_warning
from tallygate.policy.matching import FAMILY_PATTERNS
from tallygate.policy.policy_codes import CONTRADICTORY, MISSPELT_RESOURCE, SHADOWED
from tallygate.policy.suggest import suggest_well_known

_ENFORCEMENTS_BY_STRICTNESS = (model.Enforcement.AUDIT, model.Enforcement.WARN, model.Enforcement.DENY)
_ANY_DOMAIN = ""
_CONTAINER_FIELD, _POD_FIELD = "spec.checks.perContainer", "spec.checks.perPod"
_CLAIM_FIELD, _DEVICES_FIELD = "spec.checks.perClaim", "spec.checks.devices"


def lint_pairs(rules: tuple[model.ResourceRule, ...]) -> Iterator[LintFinding]:
    """Yield the findings about each two rules that may apply to one resource, or an error if that takes too long."""
    shadowed: set[str] = set()
    sizes, effort = [_measure_rule(rule) for rule in rules], Effort()
    try:
        for first_index, second_index in _list_comparable_pairs(rules):
            first, second = rules[first_index], rules[second_index]
            effort.add(second, MATCH_STEPS, sizes[first_index] * sizes[second_index])
            for narrow, wide in _find_shadowing(first, second):
                if narrow.name not in shadowed:
                    shadowed.add(narrow.name)
                    text = f'says nothing that rule "{wide.name}" ({wide.location}) does not say already; remove one'
                    yield create_finding(narrow, create_warning("", SHADOWED, text))
            yield from _find_contradiction(first, second)
    except TooManyStepsError as error:
        yield error.create_finding()


def _measure_rule(rule: model.ResourceRule) -> int:
    devices = rule.checks.devices
    return measure_match(rule.match) + measure_globs((*rule.resources, *(devices.classes if devices else ())))


def _list_comparable_pairs(rules: tuple[model.ResourceRule, ...]) -> Iterator[tuple[int, int]]:
    """Yield the indices of each two rules, except those on different domains.

    A thousand rules for as many vendors are therefore fast.
    """
    by_domain: dict[str, list[int]] = {}
    for index, rule in enumerate(rules):
        domains = _list_domains(rule)
        earlier_rules = {earlier for domain in (*domains, _ANY_DOMAIN) for earlier in by_domain.get(domain, ())}
        yield from ((earlier, index) for earlier in (range(index) if _ANY_DOMAIN in domains else sorted(earlier_rules)))
        for domain in domains:
            by_domain.setdefault(domain, []).append(index)


def _list_domains(rule: model.ResourceRule) -> set[str]:
    """Return the domains of a rule's resources; a pattern over several domains counts as any domain.

    The devices of a class have two names, and so two domains.
    """
    domains = (
        pattern.partition("/") for pattern in coverage.add_other_device_names(coverage.list_included(rule.resources))
    )
    return {domain if slash and is_literal(domain) else _ANY_DOMAIN for domain, slash, _ in domains}


def _find_shadowing(
    first: model.ResourceRule, second: model.ResourceRule
) -> Iterator[tuple[model.ResourceRule, model.ResourceRule]]:
    """Yield the redundant rule and the rule that covers it; of two equal rules the later one is redundant."""
    for narrow, wide in ((second, first), (first, second)):
        if _is_shadowing(wide, narrow):
            yield narrow, wide
            return


def _is_shadowing(wide: model.ResourceRule, narrow: model.ResourceRule) -> bool:
    return (
        bool(coverage.list_included(narrow.resources))
        and _ENFORCEMENTS_BY_STRICTNESS.index(wide.enforcement) >= _ENFORCEMENTS_BY_STRICTNESS.index(narrow.enforcement)
        and _checks_imply(wide.checks, narrow.checks)
        and coverage.match_covers(wide.match, narrow.match)
        and coverage.resources_cover(wide.resources, narrow.resources)
        and (not (narrow.checks.per_claim or narrow.checks.devices) or _claim_checks_imply(wide, narrow))
        and (narrow.checks.active_deadline_seconds is None or _includes_jobs(wide) == _includes_jobs(narrow))
    )


def _includes_jobs(rule: model.ResourceRule) -> bool:
    """Return whether a rule checks Jobs in place of their pods, which then need no deadline."""
    return rule.match.kinds is None or "Job" in rule.match.kinds


def _claim_checks_imply(wide: model.ResourceRule, narrow: model.ResourceRule) -> bool:
    """Return whether a claim that passes the wide rule passes the narrow one.

    The devices of several classes are one amount, so of bounds on more classes only a maximum implies another. A class
    has two names, and the wide rule may exclude it by the one that the narrow rule does not have.
    """
    strict, lax = wide.checks.per_claim, narrow.checks.per_claim
    is_same = wide.resources == narrow.resources or lax is None or lax == model.AmountBounds(max=lax.max)
    return (
        is_same
        and _bounds_imply(strict, lax)
        and narrow.checks.devices in {None, wide.checks.devices}
        and set(coverage.list_excluded(wide.resources)) <= set(coverage.list_excluded(narrow.resources))
    )


def _checks_imply(strict: model.Checks, lax: model.Checks) -> bool:
    """Return whether an object that passes the strict checks passes the lax ones, and is filled in likewise."""
    return (
        (strict.well_formed_name or not lax.well_formed_name)
        and _rank_whole_quantity(strict) >= _rank_whole_quantity(lax)
        and _equality_implies(strict.requests_equal_limits, lax.requests_equal_limits)
        and _bounds_imply(strict.per_container, lax.per_container)
        and _bounds_imply(strict.per_pod, lax.per_pod)
        and (strict.advertised or not lax.advertised)
        and lax.schedulable in {None, strict.schedulable}
        and _deadlines_imply(strict.active_deadline_seconds, lax.active_deadline_seconds)
    )


def _deadlines_imply(strict: DeadlineChecks | None, lax: DeadlineChecks | None) -> bool:
    if lax is None or lax == strict:
        return True
    if strict is None or (lax.required and not strict.required):
        return False
    return lax.max is None or (strict.max is not None and strict.max <= lax.max)


def _rank_whole_quantity(checks: model.Checks) -> int:
    """Return 0 if the check is off, 1 if it applies to countable resources, 2 if it applies to all."""
    return {False: 0, None: 1, True: 2}[checks.whole_quantity]


def _equality_implies(strict: model.Equality | None, lax: model.Equality | None) -> bool:
    if model.Equality.FILL in {strict, lax}:
        return strict is lax or lax is model.Equality.IGNORE
    return lax in {model.Equality.IGNORE, strict} or strict is model.Equality.REQUIRE


def _bounds_imply(strict: model.AmountBounds | None, lax: model.AmountBounds | None) -> bool:
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


def _find_contradiction(first: model.ResourceRule, second: model.ResourceRule) -> Iterator[LintFinding]:
    """Yield an error if the scope of one rule contains the other's, else a warning: no request may match both."""
    if not (_has_shown_bounds(first) and _has_shown_bounds(second)) or not coverage.can_share_request(
        first.match, second.match
    ):
        return
    second_field = first_field = ""
    if coverage.resources_overlap(first.resources, second.resources):
        second_field, first_field = _find_unsatisfiable(second.checks, first.checks)
    if not second_field and _can_share_class(first, second):
        second_field = first_field = _find_unsatisfiable_claim(second.checks, first.checks)
    if not second_field:
        return
    always_overlap = coverage.match_covers(first.match, second.match) or coverage.match_covers(
        second.match, first.match
    )
    if second_field == _CLAIM_FIELD and not _have_same_devices(first, second):
        always_overlap = False  # a claim may have devices of other classes, which count under one of the rules
    denied = first.enforcement is second.enforcement is model.Enforcement.DENY
    create_problem = create_error if always_overlap and denied else create_warning
    subject = "request" if second_field.startswith(_DEVICES_FIELD) else "amount"
    first_location = first.get_location(first_field)
    text = f'no {subject} satisfies both this and rule "{first.name}" ({first_location}); narrow one of them'
    yield create_finding(second, create_problem(second_field, CONTRADICTORY, text))


def _has_shown_bounds(rule: model.ResourceRule) -> bool:
    checks = rule.checks
    has_bounds = any((checks.per_container, checks.per_pod, checks.per_claim, checks.devices))
    return has_bounds and rule.enforcement is not model.Enforcement.AUDIT


def _find_unsatisfiable(checks: model.Checks, other_checks: model.Checks) -> tuple[str, str]:
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


def _can_share_class(first: model.ResourceRule, second: model.ResourceRule) -> bool:
    """Return whether both rules may check the same device request of a claim."""
    kinds = [rule.match.kinds for rule in (first, second) if rule.match.kinds is not None]
    patterns = (
        coverage.add_other_device_names(coverage.select_device_patterns(rule.resources)) for rule in (first, second)
    )
    return bool(model.CLAIM_KINDS.intersection(*kinds)) and coverage.resources_overlap(*patterns)


def _have_same_devices(first: model.ResourceRule, second: model.ResourceRule) -> bool:
    """Return whether both rules name the same devices, by whichever of the two names of a class."""
    names, other_names = ({*coverage.add_other_device_names(rule.resources)} for rule in (first, second))
    return names == other_names


def _find_unsatisfiable_claim(checks: model.Checks, other_checks: model.Checks) -> str:
    """Return the field of both that no claim satisfies, or an empty text."""
    if _is_contradictory(checks.per_claim, other_checks.per_claim):
        return _CLAIM_FIELD
    devices, other_devices = checks.devices, other_checks.devices
    if devices is None or other_devices is None:
        return ""
    classes, other_classes = devices.classes, other_devices.classes
    is_each_satisfiable = all(
        coverage.class_patterns_overlap(patterns_of_one, patterns_of_one)
        for patterns_of_one in (classes, other_classes)
    )
    if is_each_satisfiable and not coverage.class_patterns_overlap(classes, other_classes):
        return f"{_DEVICES_FIELD}.classes"
    modes, other_modes = devices.allocation_modes, other_devices.allocation_modes
    return f"{_DEVICES_FIELD}.allocationModes" if modes and other_modes and not modes & other_modes else ""


def _is_prohibition(bounds: model.AmountBounds) -> bool:
    """Return whether the bounds allow zero only: such a prohibition next to another rule is intentional."""
    return bounds.max is not None and bounds.max.sign == 0


def _is_contradictory(bounds: model.AmountBounds | None, other_bounds: model.AmountBounds | None) -> bool:
    """Return whether an amount satisfies each of the bounds, but none satisfies both."""
    if bounds is None or other_bounds is None or _is_prohibition(bounds) or _is_prohibition(other_bounds):
        return False
    is_each_satisfiable = (
        coverage.find_min_allowed((bounds,)) is not None and coverage.find_min_allowed((other_bounds,)) is not None
    )
    return is_each_satisfiable and coverage.find_min_allowed((bounds, other_bounds)) is None


def _exceeds_pod_max(container: model.AmountBounds | None, pod: model.AmountBounds | None) -> bool:
    """Return whether one container must request more than a pod may request."""
    if container is None or pod is None or pod.max is None or _is_prohibition(pod):
        return False
    min_allowed = coverage.find_min_allowed((container,))
    return min_allowed is not None and min_allowed > pod.max


def lint_redundant_caps(caps: tuple[model.NamespaceCap, ...]) -> Iterator[LintFinding]:
    """Yield a warning for each cap that another one makes redundant, and for each limit that never decides.

    It is an error if that takes too long.
    """
    effort = Effort()
    try:
        redundant = list(_find_redundant_caps(caps, effort))
        for cap, covering in redundant:
            text = (
                f'never decides: cap "{covering.name}" ({covering.location}) is as small on the same pods; remove one'
            )
            yield create_finding(cap, create_warning("", SHADOWED, text))
        names = {cap.name for cap, _ in redundant}
        yield from _lint_idle_limits(caps, names, effort)
    except TooManyStepsError as error:
        yield error.create_finding()


def _find_redundant_caps(
    caps: tuple[model.NamespaceCap, ...], effort: Effort
) -> Iterator[tuple[model.NamespaceCap, model.NamespaceCap]]:
    """Yield each cap that decides nothing, with an earlier one on the same pods of the same namespaces."""
    groups: dict[str, list[model.NamespaceCap]] = {}
    for cap in caps:
        groups.setdefault(repr((cap.namespaces, cap.pods, cap.shared, cap.group_by)), []).append(cap)
    for group in groups.values():
        for index, cap in enumerate(group):
            effort.add(cap, index, index * (len(cap.hard) + len(cap.soft)))
            covering = next((earlier for earlier in group[:index] if _is_as_strict(earlier, cap)), None)
            if covering is not None:
                yield cap, covering


def _lint_idle_limits(
    caps: tuple[model.NamespaceCap, ...], redundant_names: set[str], effort: Effort
) -> Iterator[LintFinding]:
    """Yield a warning for each hard limit that never decides, since another cap limits all of its pods to less."""
    sizes = [measure_namespaces(cap.namespaces) for cap in caps]
    indices_by_name: dict[str, list[int]] = {}
    for index, cap in enumerate(caps):
        for name in cap.hard:
            indices_by_name.setdefault(name, []).append(index)
    for index, cap in enumerate(caps):
        for name in cap.hard if cap.name not in redundant_names else ():
            for other_index in indices_by_name[name]:
                tight = caps[other_index]
                effort.add(cap, 1, sizes[index] * sizes[other_index])
                if other_index != index and _is_always_tighter(tight, cap, name):
                    limit, less = describe_limit(cap.hard[name]), describe_limit(tight.hard[name])
                    text = (
                        f'{limit} never decides: cap "{tight.name}" ({tight.location}) limits the same pods to {less}; '
                        "to raise that for some namespaces, write `overrides` there"
                    )
                    yield create_finding(cap, create_warning(join_path("spec.hard", name), SHADOWED, text))
                    break


def _is_always_tighter(tight: model.NamespaceCap, loose: model.NamespaceCap, name: str) -> bool:
    """Return whether the first cap limits every pod of the second one to less under a name of both, at all times."""
    if not _is_at_most(tight, loose, tight.hard[name], loose.hard[name]):
        return False
    if _is_at_most(loose, tight, loose.hard[name], tight.hard[name]):
        return False
    return (
        tight.shared == loose.shared
        and not (tight.group_by or loose.group_by)
        and coverage.namespaces_cover(tight.namespaces, loose.namespaces)
        and tight.pods == loose.pods
        and tight.exceed == loose.exceed
        and _decides_as_much(tight, loose)
        and (tight.annotation, tight.surge) == (None, None)
        and not any(name in override.hard for override in tight.overrides)
        and tight.devices.get(name) == loose.devices.get(name)
        and tight.counts.get(name) == loose.counts.get(name)
    )


def _is_as_strict(tight: model.NamespaceCap, loose: model.NamespaceCap) -> bool:
    """Return whether the first cap denies and warns wherever the second one does."""
    return (
        _are_at_most(tight, loose, tight.hard, loose.hard)
        and _are_at_most(tight, loose, tight.soft, loose.soft)
        and tight.exceed == loose.exceed
        and _decides_as_much(tight, loose)
        and tight.surge in (None, loose.surge)
        and tight.overrides == loose.overrides
        and (tight.annotation, loose.annotation) == (None, None)
        and all(_counts_as_much(tight.devices.get(name), definition) for name, definition in loose.devices.items())
        and all(tight.counts.get(name) == definition for name, definition in loose.counts.items())
    )


def _decides_as_much(tight: model.NamespaceCap, loose: model.NamespaceCap) -> bool:
    """Return whether the first cap denies, beside its limits, all that the second one does."""
    denies_workloads = loose.workloads is model.ForecastEnforcement.DENY
    return (
        loose.guarantee in ((), tight.guarantee)
        and (tight.admits_whole or not loose.admits_whole)
        and (not denies_workloads or tight.workloads is model.ForecastEnforcement.DENY)
    )


def _is_at_most(tight: model.NamespaceCap, loose: model.NamespaceCap, limit: CapLimit, other: CapLimit) -> bool:
    """Return whether a limit of the first cap is at most one of the second, however much capacity there is."""
    return is_never_above(limit, other, has_same_capacity=tight.capacity == loose.capacity)


def _are_at_most(
    tight: model.NamespaceCap, loose: model.NamespaceCap, limits: Mapping[str, CapLimit], others: Mapping[str, CapLimit]
) -> bool:
    return all(name in limits and _is_at_most(tight, loose, limits[name], other) for name, other in others.items())


def _counts_as_much(tight: model.DeviceDefinition | None, loose: model.DeviceDefinition) -> bool:
    """Return whether every device of the second definition counts under the first one, and as much."""
    first = tight or model.DeviceDefinition()
    return (first.selector, first.sum) == (loose.selector, loose.sum) and {*loose.classes} <= {*first.classes}


@dataclass(frozen=True, slots=True)
class _ResourceUse:
    """One field of a policy that names a resource."""

    name: str
    policy: model.ResourceRule | model.NamespaceCap | model.ImpliedRequest
    field: str


def lint_names(policies: model.PolicySet) -> Iterator[LintFinding]:
    """Yield a warning for each name that is probably a misspelling of another one."""
    uses = list(_list_uses(policies))
    respellings = _find_respellings(uses)
    for use in uses:
        suggestion = suggest_well_known(use.name) or respellings.get(use.name)
        if suggestion is not None:
            text = f'did you mean "{suggestion}" instead of "{use.name}"?'
            yield create_finding(use.policy, create_warning(use.field, MISSPELT_RESOURCE, text))


def _list_uses(policies: model.PolicySet) -> Iterator[_ResourceUse]:
    for rule in policies.rules:
        for index, name in enumerate(rule.resources):
            if is_literal(name) and name not in FAMILY_PATTERNS and not name.startswith("!"):
                yield _ResourceUse(name, rule, f"spec.resources[{index}]")
    for cap in policies.caps:
        own_names = list_own_names(cap)
        for field, amounts in (("spec.hard", cap.hard), ("spec.soft", cap.soft)):
            for name in amounts:
                resource = name.removeprefix(LIMITS_PREFIX)
                if resource != PODS_RESOURCE and name not in own_names:
                    yield _ResourceUse(resource, cap, join_path(field, name))
        yield from _list_counted_resources(cap)
    for implied in policies.implied_requests:
        if "/" in implied.resource:  # else an error has the suggestion
            yield _ResourceUse(implied.resource, implied, "spec.resource")


def _list_counted_resources(cap: model.NamespaceCap) -> Iterator[_ResourceUse]:
    """Yield the resources of `counts`, without those that stand next to a similar name on purpose."""
    for name, count in cap.counts.items():
        field = join_path("spec.counts", name)
        fields = {weight: join_path(f"{field}.weights", weight) for weight in count.weights}
        fields |= {factor: f"{field}.product[{index}]" for index, factor in enumerate(count.product)}
        for resource, path in fields.items():
            if suggest_well_known(resource) not in fields:
                yield _ResourceUse(resource, cap, path)


def list_own_names(cap: model.NamespaceCap) -> frozenset[str]:
    """Return the names that a cap itself defines: by allocated devices, or by several resources."""
    return frozenset(name for name, device in cap.devices.items() if device.is_by_allocation) | cap.counts.keys()


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
