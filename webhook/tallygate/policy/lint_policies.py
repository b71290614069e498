"""Lint of a policy set: well-formed policies that cannot be intended.

Errors are rules and caps that no request can match or satisfy; they prevent the use of the set. Warnings are legal and
probably mistakes. Each finding has the location of its field.

The checks cover each rule, each cap, caps and rules in pairs, and resource names that are probably misspelt: similar to
a well-known name, or spelt differently elsewhere in the set.
"""

from collections.abc import Iterator

from tallygate.accounting.claim_charge import MAX_DEVICES
from tallygate.accounting.names import DEVICES_SUFFIX
from tallygate.accounting.quantity import Quantity, suggest_whole
from tallygate.policy import coverage, model, policy_codes
from tallygate.policy.amount_units import describe_odd_unit
from tallygate.policy.globs import covers, is_literal
from tallygate.policy.lint_caps import lint_cap, lint_counted_shapes
from tallygate.policy.lint_findings import FieldProblem, LintFinding, create_error, create_finding, create_warning
from tallygate.policy.lint_implied import lint_implied_requests
from tallygate.policy.lint_pairs import lint_names, lint_pairs, lint_redundant_caps
from tallygate.policy.matching import FAMILY_PATTERNS, names_every_class
from tallygate.policy.node_resource_definitions import lint_node_resources

_KINDS_WITHOUT_PODS = frozenset({"Node", "ResourceQuota", "LimitRange"}) | model.CLAIM_KINDS
_CLAIM_FIELD, _DEVICES_FIELD = "spec.checks.perClaim", "spec.checks.devices"
_DEADLINE_FIELD = "spec.checks.activeDeadlineSeconds"
_MAX_DEVICES = model.AmountBounds(max=Quantity.from_int(MAX_DEVICES))
"""The bounds that Kubernetes sets for every claim."""


def lint_policies(policies: model.PolicySet) -> tuple[LintFinding, ...]:
    """Return every finding about a set, sorted by location."""
    findings = {
        *(finding for rule in policies.rules for finding in lint_rule(rule)),
        *(finding for cap in policies.caps for finding in lint_cap(cap)),
        *lint_pairs(policies.rules),
        *lint_redundant_caps(policies.caps),
        *lint_counted_shapes(policies),
        *(lint_implied_requests(policies.implied_requests) if policies.implied_requests else ()),
        *lint_names(policies),
        *lint_node_resources(policies.node_resources),
    }
    return tuple(sorted(findings))


def lint_rule(rule: model.ResourceRule, invalid_sections: frozenset[str] = frozenset()) -> Iterator[LintFinding]:
    """Yield the findings about one rule.

    Fields below `invalid_sections`, as in `match`, were left out because of errors: no finding depends on them.
    """
    excluded = invalid_sections | ({"checks"} if invalid_sections & {"resources", "match"} else set())
    problems = (
        *_check_rule_match(rule),
        *_check_rule_checks(rule),
        *_check_rule_bounds(rule),
        *_check_claim_scope(rule),
        *_check_device_checks(rule.checks.devices),
        *_check_deadlines(rule),
    )
    for problem in problems:
        if problem.section not in excluded:
            yield create_finding(rule, problem)


def _check_rule_match(rule: model.ResourceRule) -> Iterator[FieldProblem]:
    """Yield the reasons why no request can match the rule."""
    included, excluded = coverage.list_included(rule.resources), coverage.list_excluded(rule.resources)
    if not included:
        yield _create_matches_nothing(
            "resources", 'only exclusions, so no resource is left; put "*" or a family before them'
        )
    elif all(any(coverage.pattern_covers(exclusion, pattern) for exclusion in excluded) for pattern in included):
        yield _create_matches_nothing(
            "resources", "everything that is included is excluded again; narrow the patterns with !"
        )
    explanation = coverage.explain_empty_namespaces(rule.match.namespaces)
    if explanation:
        yield _create_matches_nothing("match.namespaces", explanation)
    if rule.match.namespaces is not None and rule.match.kinds == frozenset({"Node"}):
        yield _create_matches_nothing(
            "match.namespaces", "nodes are in no namespace; remove this, or name another kind"
        )
    if not coverage.is_selector_satisfiable(rule.match.object_selector):
        yield _create_matches_nothing("match.objectSelector", "no labels satisfy the selector; remove what contradicts")
    if coverage.is_every_user(rule.match.exempt):
        yield _create_matches_nothing("match.exempt", "everybody is exempt; name the groups that shall be")


def _create_matches_nothing(field: str, text: str) -> FieldProblem:
    return create_error(f"spec.{field}", policy_codes.MATCHES_NOTHING, text)


def _check_rule_checks(rule: model.ResourceRule) -> Iterator[FieldProblem]:
    """Yield a warning if all checks are off, and for each check that applies to no kind of the rule."""
    checks = rule.checks
    enabled = (
        checks.well_formed_name,
        checks.whole_quantity is not False,
        checks.requests_equal_limits != model.Equality.IGNORE,
    )
    pod_checks = (
        checks.per_container,
        checks.per_pod,
        checks.advertised,
        checks.schedulable,
        checks.active_deadline_seconds,
    )
    if not any((*enabled, *pod_checks, checks.per_claim, checks.devices)):
        yield create_warning(
            "spec.checks", policy_codes.CHECKS_NOTHING, "every check is switched off; switch one on or remove the rule"
        )
    elif (
        rule.match.kinds is not None
        and rule.match.kinds <= model.CLAIM_KINDS
        and not (checks.per_claim or checks.devices or checks.advertised)
    ):
        text = "only perClaim, devices and advertised apply to claims; add one of them, or another kind"
        yield create_warning("spec.checks", policy_codes.CHECKS_NOTHING, text)
    if rule.match.kinds is not None and rule.match.kinds <= _KINDS_WITHOUT_PODS:
        kinds = " and ".join(sorted(rule.match.kinds))
        verb = "has" if len(rule.match.kinds) == 1 else "have"
        text = f"{kinds} {verb} no containers, so this is never evaluated; add Pod to match.kinds"
        yield from (
            create_warning(f"spec.checks.{field}", policy_codes.CHECK_WITHOUT_KIND, text)
            for field in _list_pod_checks(checks)
        )
        if checks.advertised and not rule.match.kinds & model.CLAIM_KINDS:
            yield create_warning("spec.checks.advertised", policy_codes.CHECK_WITHOUT_KIND, text)


def _list_pod_checks(checks: model.Checks) -> Iterator[str]:
    """Yield the enabled checks that apply to pods only."""
    if checks.requests_equal_limits in {model.Equality.REQUIRE, model.Equality.FILL}:
        yield "requestsEqualLimits"
    if checks.per_container is not None:
        yield "perContainer"
    if checks.per_pod is not None:
        yield "perPod"
    if checks.schedulable is not None:
        yield "schedulable"
    if checks.active_deadline_seconds is not None:
        yield "activeDeadlineSeconds"


def _check_rule_bounds(rule: model.ResourceRule) -> Iterator[FieldProblem]:
    """Yield the problems of bounds that contradict themselves or one another."""
    container, pod = rule.checks.per_container, rule.checks.per_pod
    countable = all(coverage.is_countable_pattern(pattern) for pattern in coverage.list_included(rule.resources))
    for field, bounds, is_counted in (
        ("spec.checks.perContainer", container, countable),
        ("spec.checks.perPod", pod, countable),
        (_CLAIM_FIELD, rule.checks.per_claim, True),
    ):
        if bounds is not None:
            yield from _check_bounds(field, bounds)
            yield from _check_units(field, rule.resources, bounds)
            yield from _check_fractions(field, bounds) if is_counted else ()
    min_allowed = coverage.find_min_allowed((container,)) if container is not None else None
    if pod is not None and pod.max is not None and min_allowed is not None and min_allowed > pod.max:
        text = f"{pod.max} is less than the minimum that one container must request, {min_allowed}; raise it"
        yield create_error("spec.checks.perPod.max", policy_codes.IMPOSSIBLE_BOUNDS, text)


def _check_units(field: str, resources: tuple[str, ...], bounds: model.AmountBounds) -> Iterator[FieldProblem]:
    """Yield the bounds whose unit does not fit a resource that the rule names; the step may be any part of a unit."""
    names = [name for name in coverage.list_included(resources) if is_literal(name) and name not in FAMILY_PATTERNS]
    amounts = {"min": bounds.min, "max": bounds.max}
    amounts |= {f"oneOf[{index}]": amount for index, amount in enumerate(bounds.one_of)}
    for bound, quantity in amounts.items():
        texts = (describe_odd_unit(name, quantity) for name in names) if quantity is not None else ()
        if text := next(filter(None, texts), ""):
            yield create_warning(f"{field}.{bound}", policy_codes.ODD_UNIT, text)


def _check_claim_scope(rule: model.ResourceRule) -> Iterator[FieldProblem]:
    """Yield the problems of checks of claims that no claim can meet: by its kind, its classes, or its size."""
    per_claim, devices = rule.checks.per_claim, rule.checks.devices
    for field, check in ((_CLAIM_FIELD, per_claim), (_DEVICES_FIELD, devices)):
        if check is None:
            continue
        if rule.match.kinds is not None and not rule.match.kinds & model.CLAIM_KINDS:
            text = "this applies to claims only; add ResourceClaim and ResourceClaimTemplate to match.kinds"
            yield create_warning(field, policy_codes.CHECK_WITHOUT_KIND, text)
        elif not coverage.select_device_patterns(rule.resources):
            text = (
                "resources match no class of devices; add extended, or the devices of a class, as in "
                f"gpu.example.com{DEVICES_SUFFIX}"
            )
            yield create_error(field, policy_codes.MATCHES_NOTHING, text)
    is_satisfiable = per_claim is not None and coverage.find_min_allowed((per_claim,)) is not None
    if per_claim is not None and is_satisfiable and coverage.find_min_allowed((per_claim, _MAX_DEVICES)) is None:
        text = f"a claim gets at most {MAX_DEVICES} devices; loosen the bounds"
        yield create_error(_CLAIM_FIELD, policy_codes.IMPOSSIBLE_BOUNDS, text)


def _check_device_checks(devices: model.DeviceChecks | None) -> Iterator[FieldProblem]:
    """Yield the problems of checks of device requests that no class passes, or that every request passes."""
    if devices is None:
        return
    included, excluded = coverage.list_included(devices.classes), coverage.list_excluded(devices.classes)
    if devices.classes and not included:
        text = 'only exclusions, so no class is left; put "*" before them'
        yield create_error(f"{_DEVICES_FIELD}.classes", policy_codes.MATCHES_NOTHING, text)
    elif included and all(any(covers(exclusion, glob) for exclusion in excluded) for glob in included):
        text = "every class that is included is excluded again; narrow the patterns with !"
        yield create_error(f"{_DEVICES_FIELD}.classes", policy_codes.MATCHES_NOTHING, text)
    elif "*" in included and not excluded:
        text = "every class is allowed; name classes, or remove this"
        yield create_warning(f"{_DEVICES_FIELD}.classes", policy_codes.CHECKS_NOTHING, text)
    if devices.allocation_modes == frozenset(model.AllocationMode):
        text = "every mode is allowed; write one of them, or remove this"
        yield create_warning(f"{_DEVICES_FIELD}.allocationModes", policy_codes.CHECKS_NOTHING, text)
    if devices.admin_access is not None and coverage.is_every_user(devices.admin_access):
        text = "every user may request admin access; name the groups that may, or remove this"
        yield create_warning(f"{_DEVICES_FIELD}.adminAccess", policy_codes.CHECKS_NOTHING, text)


def _check_deadlines(rule: model.ResourceRule) -> Iterator[FieldProblem]:
    """Yield the problems of bounds on the time of pods: every pod passes them, or those with claims are not checked."""
    deadlines = rule.checks.active_deadline_seconds
    if deadlines is None:
        return
    if deadlines.max is None and not deadlines.required:
        text = "every pod passes; write max, or required: true"
        yield create_warning(_DEADLINE_FIELD, policy_codes.CHECKS_NOTHING, text)
    elif not names_every_class(rule.resources) and any(map(_names_class, coverage.list_included(rule.resources))):
        text = "a pod does not name the classes of its claims, so pods with claims are not checked; name extended"
        yield create_warning(_DEADLINE_FIELD, policy_codes.CHECKS_NOTHING, text)


def _names_class(pattern: str) -> bool:
    return pattern.endswith(DEVICES_SUFFIX)


def _check_bounds(field: str, bounds: model.AmountBounds) -> Iterator[FieldProblem]:
    if bounds.multiple_of is not None and bounds.multiple_of.sign == 0:
        yield create_error(
            f"{field}.multipleOf", policy_codes.IMPOSSIBLE_BOUNDS, "nothing is a multiple of 0; write 1 or more"
        )
    elif bounds.min is not None and bounds.max is not None and bounds.min > bounds.max:
        text = f"{bounds.min} is above max {bounds.max}; swap them"
        yield create_error(f"{field}.min", policy_codes.IMPOSSIBLE_BOUNDS, text)
    elif coverage.find_min_allowed((bounds,)) is None:
        yield create_error(field, policy_codes.IMPOSSIBLE_BOUNDS, "no amount satisfies all of these bounds; loosen one")
    else:
        yield from _check_choices(field, bounds)


def _check_choices(field: str, bounds: model.AmountBounds) -> Iterator[FieldProblem]:
    """Yield the values of `oneOf` that the other bounds exclude, or that are duplicates."""
    for index, choice in enumerate(bounds.one_of):
        choice_path = f"{field}.oneOf[{index}]"
        if not coverage.is_allowed_amount(bounds, choice):
            text = f"{choice} is outside the other bounds; remove it or loosen them"
            yield create_warning(choice_path, policy_codes.IMPOSSIBLE_BOUNDS, text)
        if choice in bounds.one_of[:index]:
            yield create_warning(choice_path, policy_codes.REPEATED, f"{choice} stands there twice; remove one")


def _check_fractions(field: str, bounds: model.AmountBounds) -> Iterator[FieldProblem]:
    amounts: list[tuple[str, Quantity | None]] = [
        ("min", bounds.min),
        ("max", bounds.max),
        ("multipleOf", bounds.multiple_of),
        *((f"oneOf[{index}]", choice) for index, choice in enumerate(bounds.one_of)),
    ]
    for name, quantity in amounts:
        if quantity is not None and not quantity.is_whole:
            text = f"{quantity} is a fraction of what is counted in whole units; write {suggest_whole(quantity)}"
            yield create_warning(f"{field}.{name}", policy_codes.FRACTIONAL, text)
