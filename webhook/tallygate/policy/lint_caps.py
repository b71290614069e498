"""Lint of one cap: namespaces and pods that it cannot count, groups, limits and percentages, names of devices."""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from tallygate.accounting import names
from tallygate.accounting.node_shape import NodeShape
from tallygate.accounting.quantity import Quantity, suggest_whole
from tallygate.documents.syntax_tree import join_path
from tallygate.policy import policy_codes
from tallygate.policy.amount_units import describe_odd_unit
from tallygate.policy.cap_limits import (
    CapacitySelection,
    CapLimit,
    PercentLimit,
    describe_limit,
    find_most,
    is_never_above,
    list_amounts,
)
from tallygate.policy.coverage import explain_empty_namespaces, is_every_user, is_selector_satisfiable
from tallygate.policy.formats import PODS_RESOURCE
from tallygate.policy.lint_findings import FieldProblem, LintFinding, create_error, create_finding, create_warning
from tallygate.policy.lint_guarantees import check_guarantees
from tallygate.policy.lint_overrides import check_annotation, check_overrides
from tallygate.policy.lint_pairs import list_own_names
from tallygate.policy.matching import selects_node
from tallygate.policy.model import AnnotationOverride, CountDefinition, NamespaceCap, PolicySet
from tallygate.policy.selectors import LabelRequirement, Operator, PolicyLabelSelector
from tallygate.policy.suggest import format_suggestion

_LIMITS = frozenset({"hard", "soft"})
_OVERRIDDEN = frozenset({"overrides", "hard", "shared", "groupBy", "namespaces"})
"""The fields that the findings about overrides depend on."""
_ANNOTATED = frozenset({"overrideAnnotation", "hard", "shared", "groupBy"})
_CAPACITY = frozenset({"hard", "soft", "capacity", "counts"})
_GUARANTEED = frozenset({"guarantee", "hard", "shared", "groupBy", "namespaces"})
_SURGE_LIMITS = frozenset({"hard", "surge"})
_SURGE_FIELD = "spec.surge.amounts"
_NAMESPACE_NAME_LABEL = "kubernetes.io/metadata.name"
"""The API server sets this label on every namespace (k8s.io/api core/v1, LabelMetadataName)."""


def lint_cap(cap: NamespaceCap, invalid_sections: frozenset[str] = frozenset()) -> Iterator[LintFinding]:
    """Yield the findings about one cap; `invalid_sections` as for rules, but each amount is checked by itself."""
    matching = (problem for problem in _check_cap_match(cap) if problem.section not in invalid_sections)
    devices = () if invalid_sections & _LIMITS else _check_cap_devices(cap)
    surge = () if invalid_sections & _SURGE_LIMITS else _check_surge(cap)
    overrides: tuple[FieldProblem, ...] = ()
    if cap.overrides and not invalid_sections & _OVERRIDDEN:
        overrides = (*check_overrides(cap), *_check_override_amounts(cap))
    if cap.annotation and not invalid_sections & _ANNOTATED:
        overrides += (*check_annotation(cap), *_check_annotation_amounts(cap, cap.annotation))
    amounts = (*_check_cap_amounts(cap), *_check_units(cap), *_check_soft_limits(cap))
    if not invalid_sections & _CAPACITY:
        amounts += tuple(_check_percentages(cap))
    if not invalid_sections & _GUARANTEED:
        amounts += tuple(check_guarantees(cap))
    for problem in (*matching, *amounts, *surge, *devices, *overrides):
        yield create_finding(cap, problem)


def _check_cap_match(cap: NamespaceCap) -> Iterator[FieldProblem]:
    explanation = explain_empty_namespaces(cap.namespaces)
    if explanation:
        yield create_error("spec.namespaces", policy_codes.MATCHES_NOTHING, explanation)
    if not is_selector_satisfiable(cap.pods.objects):
        text = "no labels satisfy the selector; remove the requirement that contradicts another"
        yield create_error("spec.pods.objectSelector", policy_codes.MATCHES_NOTHING, text)
    if is_every_user(cap.exceed):
        text = "everybody may go over it; name the groups that may break the glass"
        yield create_warning("spec.exceed", policy_codes.CHECKS_NOTHING, text)
    if cap.admits_whole and not cap.hard:
        text = "a soft limit denies nothing, so nothing is reserved for a workload; write a limit under hard"
        yield create_warning("spec.admit", policy_codes.CHECKS_NOTHING, text)
    yield from _check_groups(cap)


def _check_groups(cap: NamespaceCap) -> Iterator[FieldProblem]:
    """Yield the mistakes of a cap with `groupBy`: groups that cannot exist, or that need no `groupBy`."""
    label = cap.group_by
    if not label:
        return
    selector = cap.namespaces.selector or PolicyLabelSelector()
    if not cap.shared:
        text = "the namespaces of each group share one cap; remove shared: false, or remove groupBy"
        yield create_error("spec.shared", policy_codes.MATCHES_NOTHING, text)
    with_label = LabelRequirement(label, Operator.EXISTS)
    grouped = msgspec.structs.replace(selector, match_expressions=(*selector.match_expressions, with_label))
    if is_selector_satisfiable(selector) and not is_selector_satisfiable(grouped):
        text = f"spec.namespaces selects no namespace with the label {label}, so there is no group; name another label"
        yield create_error("spec.groupBy.label", policy_codes.MATCHES_NOTHING, text)
    elif label in selector.match_labels:
        text = f"spec.namespaces selects one value of {label}, so there is one group; write shared: true in its place"
        yield create_warning("spec.groupBy.label", policy_codes.REPEATED, text)
    elif label == _NAMESPACE_NAME_LABEL:
        text = "this label is the name of the namespace, so each group is one namespace; remove groupBy"
        yield create_warning("spec.groupBy.label", policy_codes.REPEATED, text)


def _check_cap_amounts(cap: NamespaceCap) -> Iterator[FieldProblem]:
    own_names = list_own_names(cap)
    surge = cap.surge.amounts if cap.surge else {}
    fields: list[tuple[str, Mapping[str, CapLimit]]] = [
        ("spec.hard", cap.hard),
        ("spec.soft", cap.soft),
        (_SURGE_FIELD, surge),
        *((f"spec.guarantee[{index}].amounts", entry.quantities) for index, entry in enumerate(cap.guarantee)),
    ]
    for field, amounts in fields:
        for name, limit in amounts.items():
            for part, quantity in list_amounts(limit):
                is_whole = quantity.is_whole or name not in own_names
                yield from _check_cap_amount(join_path(field, name) + part, name, quantity, is_whole=is_whole)


def _check_units(cap: NamespaceCap) -> Iterator[FieldProblem]:
    own_names = list_own_names(cap)
    limits = {"spec.hard": cap.hard, "spec.soft": cap.soft}
    limits |= {f"spec.overrides[{index}].hard": override.hard for index, override in enumerate(cap.overrides)}
    for field, amounts in limits.items():
        for name, limit in amounts.items():
            for part, quantity in list_amounts(limit):
                text = "" if name in own_names else describe_odd_unit(name, quantity)
                if text:
                    yield create_warning(join_path(field, name) + part, policy_codes.ODD_UNIT, text)


def _check_override_amounts(cap: NamespaceCap) -> Iterator[FieldProblem]:
    """Yield the fractions in the limits of overrides; other mistakes of a name are reported at `spec.hard`."""
    own_names = list_own_names(cap)
    for index, override in enumerate(cap.overrides):
        for name, quantity in override.hard.items():
            is_whole, field = (
                quantity.is_whole or name not in own_names,
                join_path(f"spec.overrides[{index}].hard", name),
            )
            found = _check_cap_amount(field, name, quantity, is_whole=is_whole)
            yield from (problem for problem in found if problem.code == policy_codes.FRACTIONAL)


def _check_annotation_amounts(cap: NamespaceCap, definition: AnnotationOverride) -> Iterator[FieldProblem]:
    own_names = list_own_names(cap)
    for name, quantity in definition.most.items():
        is_whole, field = quantity.is_whole or name not in own_names, join_path("spec.overrideAnnotation.most", name)
        found = _check_cap_amount(field, name, quantity, is_whole=is_whole)
        yield from (problem for problem in found if problem.code == policy_codes.FRACTIONAL)


def _check_cap_amount(field: str, name: str, quantity: Quantity, *, is_whole: bool) -> Iterator[FieldProblem]:
    resource = name.removeprefix(names.LIMITS_PREFIX)
    if not is_whole or (not quantity.is_whole and (resource == PODS_RESOURCE or names.is_countable(resource))):
        text = f"{quantity} is a fraction of what is counted in whole units; write {suggest_whole(quantity)}"
        yield create_error(field, policy_codes.FRACTIONAL, text)
    if name != resource and names.classify_name(resource) is names.Family.EXTENDED:
        yield create_warning(
            field,
            policy_codes.SAME_AS_PLAIN,
            f"the limit of an extended resource is always its request; write {resource}",
        )


def _check_soft_limits(cap: NamespaceCap) -> Iterator[FieldProblem]:
    for name, soft in cap.soft.items():
        hard = cap.hard.get(name)
        if hard is not None and is_never_above(hard, soft, has_same_capacity=True):
            is_same = is_never_above(soft, hard, has_same_capacity=True)
            above = "above" if isinstance(soft, Quantity) is isinstance(hard, Quantity) else "never less than"
            create_problem, relation = (create_warning, "the same as") if is_same else (create_error, above)
            limit, most = describe_limit(hard), find_most(hard)
            advice = f"write less than {limit}" if most is None or most.sign else "remove it"
            text = f"{describe_limit(soft)} is {relation} hard {limit}, so it never warns; {advice}"
            yield create_problem(join_path("spec.soft", name), policy_codes.SOFT_OVER_HARD, text)


def _check_percentages(cap: NamespaceCap) -> Iterator[FieldProblem]:
    """Yield the mistakes of the limits of a cap that are percentages, and of the capacity that they are of."""
    for field, limits in (("spec.hard", cap.hard), ("spec.soft", cap.soft)):
        for name, limit in limits.items():
            if isinstance(limit, PercentLimit):
                yield from _check_percentage(join_path(field, name), limit, cap.counts.get(name))
    if cap.capacity is None:
        return
    if not cap.follows_capacity:
        text = "no limit is a percentage, so nothing reads the capacity; write one as in 25%, or remove this"
        yield create_error("spec.capacity", policy_codes.MATCHES_NOTHING, text)
    selector = cap.capacity.node_selector
    if selector is not None and not is_selector_satisfiable(selector):
        text = "no labels satisfy the selector, so nothing is counted; remove the requirement that contradicts another"
        yield create_error("spec.capacity.nodeSelector", policy_codes.MATCHES_NOTHING, text)


def lint_counted_shapes(policies: PolicySet) -> Iterator[LintFinding]:
    """Yield the findings about the nodes that may come, and that the capacity of a cap counts."""
    for cap in policies.caps:
        if cap.capacity is not None and cap.capacity.node_shapes and cap.follows_capacity:
            for problem in _check_counted_shapes(cap, cap.capacity, policies.node_shapes):
                yield create_finding(cap, problem)


def _check_counted_shapes(
    cap: NamespaceCap, selection: CapacitySelection, shapes: Sequence[NodeShape]
) -> Iterator[FieldProblem]:
    field = "spec.capacity.nodeShapes"
    selected = [
        shape for shape in shapes if selects_node(selection, shape.labels, [taint.key for taint in shape.taints])
    ]
    if not selected:
        text = "no NodeShape is selected, so no nodes that may come count; add one with these labels, or remove this"
        yield create_warning(field, policy_codes.MATCHES_NOTHING, text)
    limits = [*cap.hard.items(), *cap.soft.items()]
    shares = {name for name, limit in limits if isinstance(limit, PercentLimit)}
    resources = {name.removeprefix(names.LIMITS_PREFIX) for name in shares - cap.counts.keys()}
    resources |= {resource for name in shares & cap.counts.keys() for resource in cap.counts[name].weights}
    for shape in selected:
        if shape.most is None and any(map(shape.advertises, resources)):
            text = f"NodeShape {shape.name} may come any number of times, so there is no capacity; write most there"
            yield create_error(field, policy_codes.MATCHES_NOTHING, text)


def _check_percentage(field: str, limit: PercentLimit, count: CountDefinition | None) -> Iterator[FieldProblem]:
    if limit.at_least is not None and limit.at_most is not None and limit.at_least > limit.at_most:
        text = f"{limit.at_least} is more than atMost {limit.at_most}, which counts; write {limit.at_most} or less"
        yield create_error(f"{field}.atLeast", policy_codes.MATCHES_NOTHING, text)
    elif limit.most == limit.least:
        text = f"{limit.describe()} is {limit.least} of any capacity; write {limit.least}"
        yield create_warning(field, policy_codes.MATCHES_NOTHING, text)
    if count is not None and (count.product or not count.weights):
        what = "a product of requests" if count.product else "what annotations request"
        text = f"nodes have no capacity of {what}, so there is nothing of which this is a share; write an amount"
        yield create_error(field, policy_codes.MATCHES_NOTHING, text)


def _check_surge(cap: NamespaceCap) -> Iterator[FieldProblem]:
    """Yield the amounts of a surge that no pod can use."""
    if cap.surge is None:
        return
    if not cap.hard:
        text = "a soft limit denies nothing, so there is nothing to exceed; write a limit under hard, or remove surge"
        yield create_error("spec.surge", policy_codes.MATCHES_NOTHING, text)
        return
    for name, quantity in cap.surge.amounts.items():
        field = join_path(_SURGE_FIELD, name)
        if name not in cap.hard:
            advice = format_suggestion(name, cap.hard) or "; limit it there or remove this"
            yield create_error(
                field, policy_codes.MATCHES_NOTHING, f"hard has no such name, so there is nothing to exceed{advice}"
            )
        elif quantity.sign == 0:
            yield create_error(
                field, policy_codes.MATCHES_NOTHING, "0 lets no pod exceed hard; write an amount or remove this"
            )
        elif name in cap.devices and cap.devices[name].is_by_allocation:
            text = "only devices of claims count under this name, and claims have no surge; remove this"
            yield create_error(field, policy_codes.MATCHES_NOTHING, text)


def _check_cap_devices(cap: NamespaceCap) -> Iterator[FieldProblem]:
    """Yield the names of `devices` that count nothing, and the selections of pods that no claim can meet."""
    counted = {*cap.hard, *cap.soft}.union(*(count.resources for count in cap.counts.values()))
    for name in cap.counts.keys() - cap.hard.keys() - cap.soft.keys():
        text = "neither hard nor soft has this name, so nothing counts under it; limit it or remove this"
        yield create_error(join_path("spec.counts", name), policy_codes.MATCHES_NOTHING, text)
    for name in cap.devices:
        field = join_path("spec.devices", name)
        if not (_can_be_device(name) or cap.devices[name].is_by_allocation):
            text = "no device has this name; write an extended resource, as in nvidia.com/gpu"
            yield create_error(field, policy_codes.BAD_COUNTED_NAME, text)
        elif name not in counted:
            text = "neither hard nor soft has this name, so its devices count under nothing; limit it or remove this"
            yield create_error(field, policy_codes.MATCHES_NOTHING, text)
    if not any(name in cap.devices or _is_class_resource(name) for name in counted):
        return
    for field, conditions in (("priorityClasses", cap.pods.priority_classes), ("nodeSelector", cap.pods.node_selector)):
        if conditions:
            text = (
                "a claim for devices has none, so the cap counts pods alone; select claims by pods.objectSelector, "
                "or count their devices under another cap"
            )
            yield create_warning(f"spec.pods.{field}", policy_codes.CLAIMS_NOT_COUNTED, text)


def _can_be_device(name: str) -> bool:
    """Return whether claims for devices can count under a name: an extended resource, or the resource of a class."""
    return _is_class_resource(name) or (
        not name.startswith(names.LIMITS_PREFIX) and names.classify_name(name) is names.Family.EXTENDED
    )


def _is_class_resource(name: str) -> bool:
    return name.startswith(names.DEVICE_CLASS_PREFIX) or name.endswith(names.DEVICES_SUFFIX)
