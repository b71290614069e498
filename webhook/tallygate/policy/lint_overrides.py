"""Lint of the overrides of a cap: names, groups and namespaces, hidden entries, ends that are over, and annotations."""

from collections.abc import Iterator
from datetime import datetime

from tallygate.documents.syntax_tree import join_path
from tallygate.policy.coverage import is_every_user, is_selector_satisfiable, namespaces_overlap
from tallygate.policy.globs import covers, is_literal, matches, overlaps
from tallygate.policy.limit_annotations import UNTIL
from tallygate.policy.lint_findings import FieldProblem, LintFinding, create_error, create_finding, create_warning
from tallygate.policy.model import LimitOverride, NamespaceCap, PolicySet
from tallygate.policy.policy_codes import BAD_OVERRIDE, CHECKS_NOTHING, MATCHES_NOTHING, OVERRIDE_ENDED, SHADOWED
from tallygate.policy.selectors import LabelRequirement, NamespaceSelector, Operator, PolicyLabelSelector, Subjects
from tallygate.policy.suggest import format_suggestion, suggest_resource
from tallygate.policy.times import format_time


def check_overrides(cap: NamespaceCap) -> Iterator[FieldProblem]:
    """Yield the mistakes in the overrides of a cap, whatever the time."""
    for index, override in enumerate(cap.overrides):
        field = f"spec.overrides[{index}]"
        selections = [*_check_groups(cap, override, field), *_check_namespaces(cap, override, field)]
        yield from selections
        for name in override.hard:
            path = join_path(f"{field}.hard", name)
            if name not in cap.hard:
                yield create_error(path, BAD_OVERRIDE, _explain_unknown(cap, name))
            elif not selections:
                yield from _check_effect(cap, index, name, path)


def check_annotation(cap: NamespaceCap) -> Iterator[FieldProblem]:
    """Yield the mistakes in the limits that an annotation may give."""
    if cap.annotation is None:
        return
    field = "spec.overrideAnnotation"
    if cap.shared or cap.group_by:
        owners, example = "the namespaces of the cap", "overrides: [{hard: {nvidia.com/gpu: 12}}]"
        if cap.group_by:
            owners, example = "the namespaces of a group", "overrides: [{groups: [vision], hard: {nvidia.com/gpu: 12}}]"
        text = f"{owners} share one limit, which no annotation of one of them may set; write {example} in its place"
        yield create_error(field, BAD_OVERRIDE, text)
    subjects = cap.annotation.set_by
    if is_every_user(subjects):
        text = "every user may set it, so that tenants raise their own limits; name the groups of your admins"
        yield create_error(f"{field}.setBy", BAD_OVERRIDE, text)
    elif subjects == Subjects():
        text = "no user may set it; name users, groups or service accounts, as in groups: [platform-admins]"
        yield create_error(f"{field}.setBy", BAD_OVERRIDE, text)
    for name in cap.annotation.most:
        path = join_path(f"{field}.most", name)
        if name == UNTIL:
            text = f"{UNTIL} is the word for the end in an annotation; give the name in counts another spelling"
            yield create_error(path, BAD_OVERRIDE, text)
        elif name not in cap.hard:
            yield create_error(path, BAD_OVERRIDE, _explain_unknown(cap, name))


def lint_ended_overrides(policies: PolicySet, now: datetime) -> Iterator[LintFinding]:
    """Yield a warning for each override that has ended."""
    for cap in policies.caps:
        for index, override in enumerate(cap.overrides):
            if override.until is not None and override.has_ended(now):
                text = f"ended at {format_time(override.until)}, so this override has no effect; remove it"
                yield create_finding(cap, create_warning(f"spec.overrides[{index}].until", OVERRIDE_ENDED, text))


def _explain_unknown(cap: NamespaceCap, name: str) -> str:
    if name in cap.soft:
        return "spec.hard has no such name, only soft has; write a limit for it under spec.hard too"
    if not cap.hard:
        return "spec.hard is missing, and an override replaces its limits; write one for this name there"
    likely = suggest_resource(name, cap.hard)
    hint = f'; did you mean "{likely}"?' if likely else format_suggestion(name, cap.hard)
    names = f"; it has {', '.join(sorted(cap.hard))}"
    return f"spec.hard has no such name, and an override replaces its limits{hint or names}"


def _check_groups(cap: NamespaceCap, override: LimitOverride, field: str) -> Iterator[FieldProblem]:
    if not override.groups:
        return
    if not cap.group_by:
        advice = "remove them" if cap.shared else "select namespaces in their place"
        text = f"the cap has no groups; write groupBy: {{label: team}} for the label that has these values, or {advice}"
        yield create_error(f"{field}.groups", BAD_OVERRIDE, text)
        return
    for index, glob in enumerate(override.groups):
        if not _can_be_group(cap, glob):
            text = f"spec.namespaces selects no namespace with this value of {cap.group_by}; name another one"
            yield create_error(f"{field}.groups[{index}]", MATCHES_NOTHING, text)


def _can_be_group(cap: NamespaceCap, glob: str) -> bool:
    """Return whether a namespace that the cap selects may have a value of the label that the glob matches."""
    selector, label = cap.namespaces.selector or PolicyLabelSelector(), cap.group_by
    requirements = [expression for expression in selector.match_expressions if expression.key == label]
    possible = [requirement.values for requirement in requirements if requirement.operator is Operator.IN]
    if label in selector.match_labels:
        possible.append(frozenset({selector.match_labels[label]}))
    values = (
        {glob}
        if is_literal(glob)
        else {candidate for candidate in frozenset().union(*possible) if matches(glob, candidate)}
    )
    if not is_literal(glob) and not possible:
        return True
    return any(
        is_selector_satisfiable(
            PolicyLabelSelector(
                selector.match_labels,
                (*selector.match_expressions, LabelRequirement(label, Operator.IN, frozenset({value}))),
            )
        )
        for value in values
    )


def _check_namespaces(cap: NamespaceCap, override: LimitOverride, field: str) -> Iterator[FieldProblem]:
    if not override.namespaces:
        return
    if cap.shared or cap.group_by:
        owners, advice = "these namespaces share one limit", "remove shared"
        if cap.group_by:
            owners, advice = "the namespaces of a group share its limit", "select the group by groups"
        text = f"{owners}; remove this, or {advice}"
        yield create_error(f"{field}.namespaces", BAD_OVERRIDE, text)
        return
    for index, glob in enumerate(override.namespaces):
        if not namespaces_overlap(cap.namespaces, NamespaceSelector(include=(glob,))):
            text = "spec.namespaces selects no namespace of this name; name another one"
            yield create_error(f"{field}.namespaces[{index}]", MATCHES_NOTHING, text)


def _check_effect(cap: NamespaceCap, index: int, name: str, path: str) -> Iterator[FieldProblem]:
    """Yield a warning if an earlier override always decides in place of this one, or if this one changes nothing."""
    override = cap.overrides[index]
    for position, earlier in enumerate(cap.overrides[:index]):
        if name in earlier.hard and _selects_all(earlier, override) and _lasts_as_long(earlier, override):
            text = (
                f"never decides: spec.overrides[{position}] stands before it, selects the same and ends no earlier; "
                "put this one first, or remove it"
            )
            yield create_warning(path, SHADOWED, text)
            return
    later = cap.overrides[index + 1 :]
    if override.hard[name] == cap.hard[name] and not any(
        name in later_override.hard and _may_select_same(override, later_override) for later_override in later
    ):
        text = f"{cap.hard[name]} is the limit of spec.hard already; write another one, or remove this"
        yield create_warning(path, CHECKS_NOTHING, text)


def _selects_all(wide: LimitOverride, narrow: LimitOverride) -> bool:
    """Return whether the first override selects every group or namespace that the second one does."""
    wide_globs, narrow_globs = wide.groups or wide.namespaces, narrow.groups or narrow.namespaces
    return not wide_globs or (
        bool(narrow_globs) and all(any(covers(glob, group) for glob in wide_globs) for group in narrow_globs)
    )


def _may_select_same(first: LimitOverride, second: LimitOverride) -> bool:
    first_globs, second_globs = first.groups or first.namespaces, second.groups or second.namespaces
    return not (first_globs and second_globs) or any(
        overlaps(glob, group) for glob in first_globs for group in second_globs
    )


def _lasts_as_long(earlier: LimitOverride, later: LimitOverride) -> bool:
    return earlier.until is None or (later.until is not None and later.until <= earlier.until)
