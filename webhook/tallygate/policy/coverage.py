"""Coverage: containment and overlap of matches, and the amounts that bounds allow.

Lint uses it, so names are well-formed. `match_covers` and the other `cover` functions are never wrongly true;
`can_share_request` and the `overlap` functions are never wrongly false. The amounts that satisfy bounds, alone or
several together, are exact.
"""

from functools import lru_cache, reduce
from math import lcm

from tallygate.accounting.names import DEVICE_CLASS_PREFIX, DEVICES_SUFFIX, OPAQUE_PREFIX, Family, classify_name
from tallygate.accounting.quantity import Quantity
from tallygate.policy import globs
from tallygate.policy.matching import FAMILY_PATTERNS
from tallygate.policy.model import AmountBounds, Match, PodMatch
from tallygate.policy.selectors import LabelRequirement, NamespaceSelector, Operator, PolicyLabelSelector, Subjects

_ANY_QUALIFIED = "?*/?*"
_ANY_OPAQUE = OPAQUE_PREFIX + "?*"
_ALL_EXTENDED = "extended"
_ANY_DEVICES = ("?*" + DEVICES_SUFFIX, DEVICE_CLASS_PREFIX + "?*")


@lru_cache(maxsize=4096)
def list_included(patterns: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(pattern for pattern in patterns if not pattern.startswith("!"))


@lru_cache(maxsize=4096)
def list_excluded(patterns: tuple[str, ...]) -> tuple[str, ...]:
    """Return the patterns that exclude, without their `!`."""
    return tuple(pattern[1:] for pattern in patterns if pattern.startswith("!"))


def classify_pattern(pattern: str) -> Family | None:
    """Return the family of every well-formed name that a pattern matches, or `None` if there may be several."""
    if pattern in FAMILY_PATTERNS:
        return FAMILY_PATTERNS[pattern]
    if globs.is_literal(pattern):
        return classify_name(pattern)
    if pattern.startswith(OPAQUE_PREFIX):
        return Family.OPAQUE
    domain, slash, _ = pattern.partition("/")
    return (
        classify_name(f"{domain}/x")
        if slash and globs.is_literal(domain) and domain != "pod.alpha.kubernetes.io"
        else None
    )


def is_countable_pattern(pattern: str) -> bool:
    """Return whether a pattern matches only resources that are counted in whole units."""
    return classify_pattern(pattern) in {Family.EXTENDED, Family.OPAQUE}


def pattern_covers(wide: str, narrow: str) -> bool:
    """Return whether one resource pattern includes everything that another one includes."""
    if wide in FAMILY_PATTERNS:
        return classify_pattern(narrow) is FAMILY_PATTERNS[wide]
    if narrow in FAMILY_PATTERNS:
        return globs.covers(wide, _ANY_OPAQUE if FAMILY_PATTERNS[narrow] is Family.OPAQUE else _ANY_QUALIFIED)
    return globs.covers(wide, narrow)


def patterns_overlap(first: str, second: str) -> bool:
    """Return whether some name may match two resource patterns."""
    if first in FAMILY_PATTERNS and second in FAMILY_PATTERNS:
        return first == second
    if first in FAMILY_PATTERNS or second in FAMILY_PATTERNS:
        family_name, glob = (first, second) if first in FAMILY_PATTERNS else (second, first)
        glob_family = classify_pattern(glob)
        family_glob = _ANY_OPAQUE if FAMILY_PATTERNS[family_name] is Family.OPAQUE else _ANY_QUALIFIED
        return glob_family is FAMILY_PATTERNS[family_name] or (
            glob_family is None and globs.overlaps(glob, family_glob)
        )
    return globs.overlaps(first, second)


def resources_cover(wide: tuple[str, ...], narrow: tuple[str, ...]) -> bool:
    """Return whether one list of resource patterns matches everything that another one matches."""
    exclusions = [
        exclusion
        for exclusion in list_excluded(wide)
        if not any(pattern_covers(narrow_exclusion, exclusion) for narrow_exclusion in list_excluded(narrow))
    ]
    return all(
        any(pattern_covers(wide_pattern, narrow_pattern) for wide_pattern in list_included(wide))
        and not any(patterns_overlap(exclusion, narrow_pattern) for exclusion in exclusions)
        for narrow_pattern in list_included(narrow)
    )


def resources_overlap(first: tuple[str, ...], second: tuple[str, ...]) -> bool:
    """Return whether two lists of patterns may match a common resource."""
    exclusions = list_excluded((*first, *second))
    return any(
        patterns_overlap(left, right)
        and not any(pattern_covers(exclusion, left) or pattern_covers(exclusion, right) for exclusion in exclusions)
        for left in list_included(first)
        for right in list_included(second)
    )


def select_device_patterns(patterns: tuple[str, ...]) -> tuple[str, ...]:
    """Return the patterns of resources that may match the devices of a class, with all exclusions.

    The result is empty if the exclusions leave no class. The devices of a class have two names.
    """
    if any(
        pattern == _ALL_EXTENDED or any(globs.covers(pattern, names) for names in _ANY_DEVICES)
        for pattern in list_excluded(patterns)
    ):
        return ()
    included = tuple(pattern for pattern in list_included(patterns) if _overlaps_devices(pattern))
    return (*included, *(pattern for pattern in patterns if pattern.startswith("!"))) if included else ()


def add_other_device_names(patterns: tuple[str, ...]) -> tuple[str, ...]:
    """Return the patterns with the other name of each class that one of them names, also of those after `!`."""
    return tuple(dict.fromkeys(glob for pattern in patterns for glob in (pattern, _rename_devices(pattern))))


def _rename_devices(pattern: str) -> str:
    """Return the other name of the class that a pattern names; the pattern itself if it names none."""
    mark, name = ("!", pattern[1:]) if pattern.startswith("!") else ("", pattern)
    if name.startswith(DEVICE_CLASS_PREFIX):
        return f"{mark}{name.removeprefix(DEVICE_CLASS_PREFIX)}{DEVICES_SUFFIX}"
    if name.endswith(DEVICES_SUFFIX):
        return f"{mark}{DEVICE_CLASS_PREFIX}{name.removesuffix(DEVICES_SUFFIX)}"
    return pattern


def _overlaps_devices(pattern: str) -> bool:
    if pattern in FAMILY_PATTERNS:
        return pattern == _ALL_EXTENDED
    return any(globs.overlaps(pattern, names) for names in _ANY_DEVICES)


def class_patterns_overlap(first: tuple[str, ...], second: tuple[str, ...]) -> bool:
    """Return whether two lists of globs may match a common name of a class."""
    exclusions = list_excluded((*first, *second))
    return any(
        globs.overlaps(left, right)
        and not any(globs.covers(exclusion, left) or globs.covers(exclusion, right) for exclusion in exclusions)
        for left in list_included(first)
        for right in list_included(second)
    )


def match_covers(wide: Match | PodMatch, narrow: Match | PodMatch) -> bool:
    """Return whether one match applies to every request to which another one applies."""
    return (
        namespaces_cover(wide.namespaces, narrow.namespaces)
        and (wide.kinds is None or (narrow.kinds is not None and narrow.kinds <= wide.kinds))
        and selector_covers(wide.object_selector, narrow.object_selector)
        and _is_subset_of_subjects(wide.exempt, narrow.exempt)
    )


def can_share_request(first: Match | PodMatch, second: Match | PodMatch) -> bool:
    """Return whether two matches may apply to the same request."""
    kinds = first.kinds is None or second.kinds is None or bool(first.kinds & second.kinds)
    return (
        kinds
        and namespaces_overlap(first.namespaces, second.namespaces)
        and selectors_overlap(first.object_selector, second.object_selector)
    )


def namespaces_cover(wide: NamespaceSelector | None, narrow: NamespaceSelector | None) -> bool:
    if wide is None or wide == narrow:
        return True
    narrow_or_all = narrow or NamespaceSelector()
    names = narrow_or_all.include or ("*",)
    return (
        all(any(globs.covers(wide_glob, narrow_glob) for wide_glob in wide.include or ("*",)) for narrow_glob in names)
        and all(_is_outside_already(exclusion, names, narrow_or_all.exclude) for exclusion in wide.exclude)
        and selector_covers(wide.selector, narrow_or_all.selector)
    )


def _is_outside_already(exclusion: str, names: tuple[str, ...], exclusions: tuple[str, ...]) -> bool:
    """Return whether an exclusion removes nothing: other exclusions cover it, or it matches none of the names."""
    return any(globs.covers(other, exclusion) for other in exclusions) or not any(
        globs.overlaps(exclusion, name) for name in names
    )


def namespaces_overlap(first: NamespaceSelector | None, second: NamespaceSelector | None) -> bool:
    """Return whether two selectors may select a common namespace."""
    left, right = first or NamespaceSelector(), second or NamespaceSelector()
    exclusions = (*left.exclude, *right.exclude)
    has_common_name = any(
        globs.overlaps(left_glob, right_glob)
        and not any(
            globs.covers(exclusion, left_glob) or globs.covers(exclusion, right_glob) for exclusion in exclusions
        )
        for left_glob in left.include or ("*",)
        for right_glob in right.include or ("*",)
    )
    return has_common_name and selectors_overlap(left.selector, right.selector)


def selector_covers(wide: PolicyLabelSelector | None, narrow: PolicyLabelSelector | None) -> bool:
    """Return whether one selector demands at most the requirements of another one."""
    wide_requirements, narrow_requirements = _list_requirements(wide), _list_requirements(narrow)
    return all(
        any(_requirement_implies(narrow_requirement, wide_requirement) for narrow_requirement in narrow_requirements)
        for wide_requirement in wide_requirements
    )


def selectors_overlap(first: PolicyLabelSelector | None, second: PolicyLabelSelector | None) -> bool:
    """Return whether some labels may satisfy both selectors."""
    return is_satisfiable((*_list_requirements(first), *_list_requirements(second)))


def is_selector_satisfiable(selector: PolicyLabelSelector | None) -> bool:
    return is_satisfiable(_list_requirements(selector))


def _list_requirements(selector: PolicyLabelSelector | None) -> tuple[LabelRequirement, ...]:
    if selector is None:
        return ()
    equalities = (
        LabelRequirement(key, Operator.IN, frozenset({value})) for key, value in selector.match_labels.items()
    )
    return (*equalities, *selector.match_expressions)


def _requirement_implies(given: LabelRequirement, required: LabelRequirement) -> bool:
    """Return whether labels that satisfy the given requirement always satisfy the required one."""
    if given.key != required.key:
        return False
    match required.operator:
        case Operator.IN:
            return given.operator is Operator.IN and given.values <= required.values
        case Operator.NOT_IN:
            return (
                given.operator is Operator.DOES_NOT_EXIST
                or (given.operator is Operator.IN and not given.values & required.values)
                or (given.operator is Operator.NOT_IN and given.values >= required.values)
            )
        case Operator.EXISTS:
            return given.operator in {Operator.IN, Operator.EXISTS}
        case Operator.DOES_NOT_EXIST:
            return given.operator is Operator.DOES_NOT_EXIST


def is_satisfiable(requirements: tuple[LabelRequirement, ...]) -> bool:
    return all(
        _is_key_satisfiable([requirement for requirement in requirements if requirement.key == key])
        for key in _list_keys(requirements)
    )


def _list_keys(requirements: tuple[LabelRequirement, ...]) -> set[str]:
    return {requirement.key for requirement in requirements}


def _is_key_satisfiable(requirements: list[LabelRequirement]) -> bool:
    operators = {requirement.operator for requirement in requirements}
    if Operator.DOES_NOT_EXIST in operators:
        return not operators & {Operator.IN, Operator.EXISTS}
    allowed = [requirement.values for requirement in requirements if requirement.operator is Operator.IN]
    if not allowed:
        return True
    forbidden = frozenset[str]().union(
        *(requirement.values for requirement in requirements if requirement.operator is Operator.NOT_IN)
    )
    return bool(frozenset.intersection(*allowed) - forbidden)


def _is_subset_of_subjects(subset: Subjects, superset: Subjects) -> bool:
    """Return whether every user of the first selection is in the second."""
    return all(
        all(any(globs.covers(wide_glob, narrow_glob) for wide_glob in superset_globs) for narrow_glob in subset_globs)
        for subset_globs, superset_globs in (
            (subset.users, superset.users),
            (subset.groups, superset.groups),
            (subset.service_accounts, superset.service_accounts),
        )
    )


def is_every_user(subjects: Subjects) -> bool:
    """Return whether the subjects include every user; each request has an authenticated user."""
    return "*" in subjects.users or any(globs.matches(glob, "system:authenticated") for glob in subjects.groups)


def is_allowed_amount(bounds: AmountBounds, quantity: Quantity) -> bool:
    return (
        (bounds.min is None or quantity >= bounds.min)
        and (bounds.max is None or quantity <= bounds.max)
        and (bounds.multiple_of is None or quantity.is_multiple_of(bounds.multiple_of))
        and (not bounds.one_of or quantity in bounds.one_of)
    )


def find_min_allowed(all_bounds: tuple[AmountBounds, ...]) -> Quantity | None:
    """Return the smallest amount that satisfies all of these bounds, or `None` if no amount does."""
    choices = next((bounds.one_of for bounds in all_bounds if bounds.one_of), ())
    if choices:
        return min(
            (choice for choice in choices if all(is_allowed_amount(bounds, choice) for bounds in all_bounds)),
            default=None,
        )
    lowest = max((bounds.min for bounds in all_bounds if bounds.min is not None), default=Quantity.from_int(0))
    units = [bounds.multiple_of for bounds in all_bounds if bounds.multiple_of is not None]
    if units:
        unit = reduce(_find_common_multiple, units)
        if not unit.mantissa:
            return None
        mantissa, unit_mantissa, scale = lowest.align(unit)
        lowest = Quantity(-(-mantissa // unit_mantissa) * unit_mantissa, scale)
    highest = min((bounds.max for bounds in all_bounds if bounds.max is not None), default=lowest)
    return lowest if lowest <= highest else None


def _find_common_multiple(unit: Quantity, other: Quantity) -> Quantity:
    """Return the smallest number that is a multiple of both units; zero if one of them is zero."""
    mantissa, other_mantissa, scale = unit.align(other)
    return Quantity(lcm(mantissa, other_mantissa), scale)


def explain_empty_namespaces(selector: NamespaceSelector | None) -> str:
    """Return the reason why a selector can select no namespace, or an empty text."""
    if selector is None:
        return ""
    if not is_selector_satisfiable(selector.selector):
        return "no labels satisfy the selector; remove the requirement that contradicts another"
    if not namespaces_overlap(selector, selector):
        return "exclude takes out everything that include lists; narrow exclude"
    return ""
