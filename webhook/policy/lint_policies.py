"""Lint of a policy set: well-formed policies that cannot be intended.

Errors are rules and caps that no request can match or satisfy; they prevent the use of the set. Warnings are legal and
probably mistakes. Each finding has the location of its field.

The checks cover each rule, each cap, caps and rules in pairs, and resource names that are probably misspelt: similar to
a well-known name, or spelt differently elsewhere in the set.
"""

import re
from collections.abc import Iterator
from dataclasses import replace

from tallygate.webhook.accounting.claim_charge import MAX_DEVICES
from tallygate.webhook.accounting.names import (
    DEVICE_CLASS_PREFIX,
    DEVICES_SUFFIX,
    LIMITS_PREFIX,
    Family,
    classify_name,
    is_countable,
)
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
    select_device_patterns,
)
from tallygate.webhook.policy.formats import PODS_RESOURCE
from tallygate.webhook.policy.globs import covers
from tallygate.webhook.policy.lint_findings import (
    FieldProblem,
    LintFinding,
    create_error,
    create_finding,
    create_warning,
)
from tallygate.webhook.policy.lint_pairs import lint_names, lint_pairs, lint_redundant_caps, list_own_names
from tallygate.webhook.policy.model import (
    CLAIM_KINDS,
    AllocationMode,
    AmountBounds,
    Checks,
    DeviceChecks,
    Equality,
    LabelRequirement,
    NamespaceCap,
    NamespaceSelector,
    Operator,
    PolicyLabelSelector,
    PolicySet,
    ResourceRule,
)
from tallygate.webhook.policy.policy_codes import (
    BAD_COUNTED_NAME,
    CHECK_WITHOUT_KIND,
    CHECKS_NOTHING,
    CLAIMS_NOT_COUNTED,
    FRACTIONAL,
    IMPOSSIBLE_BOUNDS,
    MATCHES_NOTHING,
    REPEATED,
    SAME_AS_PLAIN,
    SOFT_OVER_HARD,
)

_LIMITS = frozenset({"hard", "soft"})
_KINDS_WITHOUT_PODS = frozenset({"Node", "ResourceQuota", "LimitRange"}) | CLAIM_KINDS
_CLAIM_FIELD, _DEVICES_FIELD = "spec.checks.perClaim", "spec.checks.devices"
_NAMESPACE_NAME_LABEL = "kubernetes.io/metadata.name"
"""The API server sets this label on every namespace (k8s.io/api core/v1, LabelMetadataName)."""
_MAX_DEVICES = AmountBounds(max=Quantity.from_int(MAX_DEVICES))
"""The bounds that Kubernetes sets for every claim."""


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
    problems = (
        *_check_rule_match(rule),
        *_check_rule_checks(rule),
        *_check_rule_bounds(rule),
        *_check_claim_scope(rule),
        *_check_device_checks(rule.checks.devices),
    )
    for problem in problems:
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
    pod_checks = (checks.per_container, checks.per_pod, checks.advertised, checks.schedulable)
    if not any((*enabled, *pod_checks, checks.per_claim, checks.devices)):
        yield create_warning(
            "spec.checks", CHECKS_NOTHING, "every check is switched off; switch one on or remove the rule"
        )
    elif (
        rule.match.kinds is not None
        and rule.match.kinds <= CLAIM_KINDS
        and not (checks.per_claim or checks.devices or checks.advertised)
    ):
        text = "only perClaim, devices and advertised apply to claims; add one of them, or another kind"
        yield create_warning("spec.checks", CHECKS_NOTHING, text)
    if rule.match.kinds is not None and rule.match.kinds <= _KINDS_WITHOUT_PODS:
        kinds = " and ".join(sorted(rule.match.kinds))
        verb = "has" if len(rule.match.kinds) == 1 else "have"
        text = f"{kinds} {verb} no containers, so this is never judged; add Pod to match.kinds"
        yield from (
            create_warning(f"spec.checks.{field}", CHECK_WITHOUT_KIND, text) for field in _list_pod_checks(checks)
        )
        if checks.advertised and not rule.match.kinds & CLAIM_KINDS:
            yield create_warning("spec.checks.advertised", CHECK_WITHOUT_KIND, text)


def _list_pod_checks(checks: Checks) -> Iterator[str]:
    """Yield the enabled checks that apply to pods only."""
    if checks.requests_equal_limits in {Equality.REQUIRE, Equality.FILL}:
        yield "requestsEqualLimits"
    if checks.per_container is not None:
        yield "perContainer"
    if checks.per_pod is not None:
        yield "perPod"
    if checks.schedulable is not None:
        yield "schedulable"


def _check_rule_bounds(rule: ResourceRule) -> Iterator[FieldProblem]:
    """Yield the problems of bounds that contradict themselves or one another."""
    container, pod = rule.checks.per_container, rule.checks.per_pod
    countable = all(is_countable_pattern(pattern) for pattern in list_included(rule.resources))
    for field, bounds, is_counted in (
        ("spec.checks.perContainer", container, countable),
        ("spec.checks.perPod", pod, countable),
        (_CLAIM_FIELD, rule.checks.per_claim, True),
    ):
        if bounds is not None:
            yield from _check_bounds(field, bounds)
            yield from _check_fractions(field, bounds) if is_counted else ()
    min_allowed = find_min_allowed((container,)) if container is not None else None
    if pod is not None and pod.max is not None and min_allowed is not None and min_allowed > pod.max:
        text = f"{pod.max} is less than the minimum that one container must request, {min_allowed}; raise it"
        yield create_error("spec.checks.perPod.max", IMPOSSIBLE_BOUNDS, text)


def _check_claim_scope(rule: ResourceRule) -> Iterator[FieldProblem]:
    """Yield the problems of checks of claims that no claim can meet: by its kind, its classes, or its size."""
    per_claim, devices = rule.checks.per_claim, rule.checks.devices
    for field, check in ((_CLAIM_FIELD, per_claim), (_DEVICES_FIELD, devices)):
        if check is None:
            continue
        if rule.match.kinds is not None and not rule.match.kinds & CLAIM_KINDS:
            text = "this applies to claims only; add ResourceClaim and ResourceClaimTemplate to match.kinds"
            yield create_warning(field, CHECK_WITHOUT_KIND, text)
        elif not select_device_patterns(rule.resources):
            text = (
                "resources match no class of devices; add extended, or the devices of a class, as in "
                f"gpu.example.com{DEVICES_SUFFIX}"
            )
            yield create_error(field, MATCHES_NOTHING, text)
    is_satisfiable = per_claim is not None and find_min_allowed((per_claim,)) is not None
    if per_claim is not None and is_satisfiable and find_min_allowed((per_claim, _MAX_DEVICES)) is None:
        text = f"a claim gets at most {MAX_DEVICES} devices; loosen the bounds"
        yield create_error(_CLAIM_FIELD, IMPOSSIBLE_BOUNDS, text)


def _check_device_checks(devices: DeviceChecks | None) -> Iterator[FieldProblem]:
    """Yield the problems of checks of device requests that no class passes, or that every request passes."""
    if devices is None:
        return
    included, excluded = list_included(devices.classes), list_excluded(devices.classes)
    if devices.classes and not included:
        text = 'only exclusions, so no class is left; put "*" before them'
        yield create_error(f"{_DEVICES_FIELD}.classes", MATCHES_NOTHING, text)
    elif included and all(any(covers(exclusion, glob) for exclusion in excluded) for glob in included):
        text = "every class that is included is excluded again; narrow the patterns with !"
        yield create_error(f"{_DEVICES_FIELD}.classes", MATCHES_NOTHING, text)
    elif "*" in included and not excluded:
        text = "every class is allowed; name classes, or remove this"
        yield create_warning(f"{_DEVICES_FIELD}.classes", CHECKS_NOTHING, text)
    if devices.allocation_modes == frozenset(AllocationMode):
        text = "every mode is allowed; write one of them, or remove this"
        yield create_warning(f"{_DEVICES_FIELD}.allocationModes", CHECKS_NOTHING, text)
    if devices.admin_access is not None and is_every_user(devices.admin_access):
        text = "every user may request admin access; name the groups that may, or remove this"
        yield create_warning(f"{_DEVICES_FIELD}.adminAccess", CHECKS_NOTHING, text)


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
    devices = () if invalid_sections & _LIMITS else _check_cap_devices(cap)
    for problem in (*matching, *_check_cap_amounts(cap), *_check_soft_limits(cap), *devices):
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
    yield from _check_groups(cap)


def _check_groups(cap: NamespaceCap) -> Iterator[FieldProblem]:
    """Yield the mistakes of a cap with `groupBy`: groups that cannot exist, or that need no `groupBy`."""
    label = cap.group_by
    if not label:
        return
    selector = cap.namespaces.selector or PolicyLabelSelector()
    if not cap.shared:
        text = "the namespaces of each group share one cap; remove shared: false, or remove groupBy"
        yield create_error("spec.shared", MATCHES_NOTHING, text)
    with_label = LabelRequirement(label, Operator.EXISTS)
    grouped = replace(selector, match_expressions=(*selector.match_expressions, with_label))
    if is_selector_satisfiable(selector) and not is_selector_satisfiable(grouped):
        text = f"spec.namespaces selects no namespace with the label {label}, so there is no group; name another label"
        yield create_error("spec.groupBy.label", MATCHES_NOTHING, text)
    elif label in selector.match_labels:
        text = f"spec.namespaces selects one value of {label}, so there is one group; write shared: true in its place"
        yield create_warning("spec.groupBy.label", REPEATED, text)
    elif label == _NAMESPACE_NAME_LABEL:
        text = "this label is the name of the namespace, so each group is one namespace; remove groupBy"
        yield create_warning("spec.groupBy.label", REPEATED, text)


def _check_cap_amounts(cap: NamespaceCap) -> Iterator[FieldProblem]:
    own_names = list_own_names(cap)
    for field, amounts in (("spec.hard", cap.hard), ("spec.soft", cap.soft)):
        for name, quantity in amounts.items():
            is_whole = quantity.is_whole or name not in own_names
            yield from _check_cap_amount(join_path(field, name), name, quantity, is_whole=is_whole)


def _check_cap_amount(field: str, name: str, quantity: Quantity, *, is_whole: bool) -> Iterator[FieldProblem]:
    resource = name.removeprefix(LIMITS_PREFIX)
    if not is_whole or (not quantity.is_whole and (resource == PODS_RESOURCE or is_countable(resource))):
        text = f"{quantity} is a fraction of what is counted in whole units; write {quantity.value()}"
        yield create_error(field, FRACTIONAL, text)
    if name != resource and classify_name(resource) is Family.EXTENDED:
        yield create_warning(
            field, SAME_AS_PLAIN, f"the limit of an extended resource is always its request; write {resource}"
        )


def _check_soft_limits(cap: NamespaceCap) -> Iterator[FieldProblem]:
    for name, soft in cap.soft.items():
        hard = cap.hard.get(name)
        if hard is not None and soft >= hard:
            create_problem, relation = (create_error, "above") if soft > hard else (create_warning, "the same as")
            text = f"{soft} is {relation} hard {hard}, so it never warns; write less than {hard}"
            yield create_problem(join_path("spec.soft", name), SOFT_OVER_HARD, text)


def _check_cap_devices(cap: NamespaceCap) -> Iterator[FieldProblem]:
    """Yield the names of `devices` that count nothing, and the selections of pods that no claim can meet."""
    counted = {*cap.hard, *cap.soft}.union(*(each.resources for each in cap.counts.values()))
    for name in cap.counts.keys() - cap.hard.keys() - cap.soft.keys():
        text = "neither hard nor soft has this name, so nothing counts under it; limit it or remove this"
        yield create_error(join_path("spec.counts", name), MATCHES_NOTHING, text)
    for name in cap.devices:
        field = join_path("spec.devices", name)
        if not (_can_be_device(name) or cap.devices[name].is_by_allocation):
            text = "no device has this name; write an extended resource, as in nvidia.com/gpu"
            yield create_error(field, BAD_COUNTED_NAME, text)
        elif name not in counted:
            text = "neither hard nor soft has this name, so its devices count under nothing; limit it or remove this"
            yield create_error(field, MATCHES_NOTHING, text)
    if not any(name in cap.devices or _is_class_resource(name) for name in counted):
        return
    for field, conditions in (("priorityClasses", cap.pods.priority_classes), ("nodeSelector", cap.pods.node_selector)):
        if conditions:
            text = (
                "a claim for devices has none, so the cap counts pods alone; select claims by pods.objectSelector, "
                "or count their devices under another cap"
            )
            yield create_warning(f"spec.pods.{field}", CLAIMS_NOT_COUNTED, text)


def _can_be_device(name: str) -> bool:
    """Return whether claims for devices can count under a name: an extended resource, or the resource of a class."""
    return _is_class_resource(name) or (not name.startswith(LIMITS_PREFIX) and classify_name(name) is Family.EXTENDED)


def _is_class_resource(name: str) -> bool:
    return name.startswith(DEVICE_CLASS_PREFIX) or name.endswith(DEVICES_SUFFIX)
