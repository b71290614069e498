"""Coverage: which matches contain one another, and which have something in common.

For lint, so about names that are well formed. `covers` is never wrongly true; `may_share` is never wrongly false.
"""

from functools import lru_cache

from webhook.accounting.names import OPAQUE_PREFIX, Family, classify_name
from webhook.policy import globs
from webhook.policy.model import LabelRequirement, LabelSelector, Match, NamespaceSelector, Operator, Subjects
from webhook.policy.resolve import FAMILIES

_ANY_QUALIFIED = "?*/?*"
_ANY_OPAQUE = OPAQUE_PREFIX + "?*"


@lru_cache(maxsize=4096)
def included(patterns: tuple[str, ...]) -> tuple[str, ...]:
    """The patterns that include."""
    return tuple(pattern for pattern in patterns if not pattern.startswith("!"))


@lru_cache(maxsize=4096)
def excluded(patterns: tuple[str, ...]) -> tuple[str, ...]:
    """The patterns that exclude, without their `!`."""
    return tuple(pattern[1:] for pattern in patterns if pattern.startswith("!"))


def pattern_family(pattern: str) -> Family | None:
    """The family that every well-formed name of a pattern belongs to, or `None` if they may be of several."""
    if pattern in FAMILIES:
        return FAMILIES[pattern]
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
    """Whether all that a pattern matches is counted in whole units."""
    return pattern_family(pattern) in {Family.EXTENDED, Family.OPAQUE}


def pattern_covers(wide: str, narrow: str) -> bool:
    """Whether one resource pattern includes everything that another one does."""
    if wide in FAMILIES:
        return pattern_family(narrow) is FAMILIES[wide]
    if narrow in FAMILIES:
        return globs.covers(wide, _ANY_OPAQUE if FAMILIES[narrow] is Family.OPAQUE else _ANY_QUALIFIED)
    return globs.covers(wide, narrow)


def patterns_meet(one: str, other: str) -> bool:
    """Whether some name may match two resource patterns."""
    if one in FAMILIES and other in FAMILIES:
        return one == other
    if one in FAMILIES or other in FAMILIES:
        named, glob = (one, other) if one in FAMILIES else (other, one)
        known = pattern_family(glob)
        among = _ANY_OPAQUE if FAMILIES[named] is Family.OPAQUE else _ANY_QUALIFIED
        return known is FAMILIES[named] or (known is None and globs.overlap(glob, among))
    return globs.overlap(one, other)


def resources_cover(wide: tuple[str, ...], narrow: tuple[str, ...]) -> bool:
    """Whether one list of resource patterns matches all that another one does."""
    holes = [hole for hole in excluded(wide) if not any(pattern_covers(other, hole) for other in excluded(narrow))]
    return all(
        any(pattern_covers(whole, part) for whole in included(wide))
        and not any(patterns_meet(hole, part) for hole in holes)
        for part in included(narrow)
    )


def resources_meet(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Whether some resource may be matched by two lists of patterns."""
    holes = excluded((*one, *other))
    return any(
        patterns_meet(left, right)
        and not any(pattern_covers(hole, left) or pattern_covers(hole, right) for hole in holes)
        for left in included(one)
        for right in included(other)
    )


def covers(wide: Match, narrow: Match) -> bool:
    """Whether everything that one match is for, another one is for as well."""
    return (
        namespaces_cover(wide.namespaces, narrow.namespaces)
        and (wide.kinds is None or (narrow.kinds is not None and narrow.kinds <= wide.kinds))
        and selector_covers(wide.objects, narrow.objects)
        and _subjects_within(wide.except_for, narrow.except_for)
    )


def may_share(one: Match, other: Match) -> bool:
    """Whether two matches may be for one and the same request."""
    kinds = one.kinds is None or other.kinds is None or bool(one.kinds & other.kinds)
    return kinds and namespaces_meet(one.namespaces, other.namespaces) and selectors_meet(one.objects, other.objects)


def namespaces_cover(wide: NamespaceSelector | None, narrow: NamespaceSelector | None) -> bool:
    """Whether one selection holds all namespaces of another."""
    if wide is None or wide == narrow:
        return True
    inner = narrow or NamespaceSelector()
    names = inner.include or ("*",)
    return (
        all(any(globs.covers(whole, part) for whole in wide.include or ("*",)) for part in names)
        and all(_is_hole_elsewhere(hole, names, inner.exclude) for hole in wide.exclude)
        and selector_covers(wide.selector, inner.selector)
    )


def _is_hole_elsewhere(hole: str, names: tuple[str, ...], holes: tuple[str, ...]) -> bool:
    """Whether what a hole takes out is not there in the first place."""
    return any(globs.covers(other, hole) for other in holes) or not any(globs.overlap(hole, name) for name in names)


def namespaces_meet(one: NamespaceSelector | None, other: NamespaceSelector | None) -> bool:
    """Whether two selections may hold a namespace in common."""
    left, right = one or NamespaceSelector(), other or NamespaceSelector()
    holes = (*left.exclude, *right.exclude)
    names = any(
        globs.overlap(first, second)
        and not any(globs.covers(hole, first) or globs.covers(hole, second) for hole in holes)
        for first in left.include or ("*",)
        for second in right.include or ("*",)
    )
    return names and selectors_meet(left.selector, right.selector)


def selector_covers(wide: LabelSelector | None, narrow: LabelSelector | None) -> bool:
    """Whether one selector asks no more than another one."""
    asked, given = _requirements(wide), _requirements(narrow)
    return all(any(_implies(mine, theirs) for mine in given) for theirs in asked)


def selectors_meet(one: LabelSelector | None, other: LabelSelector | None) -> bool:
    """Whether some labels may satisfy both selectors."""
    return is_satisfiable((*_requirements(one), *_requirements(other)))


def selects_something(selector: LabelSelector | None) -> bool:
    """Whether some labels satisfy a selector."""
    return is_satisfiable(_requirements(selector))


def _requirements(selector: LabelSelector | None) -> tuple[LabelRequirement, ...]:
    """All that a selector asks, in one form."""
    if selector is None:
        return ()
    equal = (LabelRequirement(key, Operator.IN, frozenset({value})) for key, value in selector.match_labels.items())
    return (*equal, *selector.match_expressions)


def _implies(given: LabelRequirement, asked: LabelRequirement) -> bool:
    """Whether labels that meet the one requirement always meet the other."""
    if given.key != asked.key:
        return False
    match asked.operator:
        case Operator.IN:
            return given.operator is Operator.IN and given.values <= asked.values
        case Operator.NOT_IN:
            return (
                given.operator is Operator.DOES_NOT_EXIST
                or (given.operator is Operator.IN and not given.values & asked.values)
                or (given.operator is Operator.NOT_IN and given.values >= asked.values)
            )
        case Operator.EXISTS:
            return given.operator in {Operator.IN, Operator.EXISTS}
        case Operator.DOES_NOT_EXIST:
            return given.operator is Operator.DOES_NOT_EXIST


def is_satisfiable(requirements: tuple[LabelRequirement, ...]) -> bool:
    """Whether some labels meet all of these requirements."""
    return all(_key_is_satisfiable([one for one in requirements if one.key == key]) for key in _keys(requirements))


def _keys(requirements: tuple[LabelRequirement, ...]) -> set[str]:
    return {requirement.key for requirement in requirements}


def _key_is_satisfiable(requirements: list[LabelRequirement]) -> bool:
    operators = {one.operator for one in requirements}
    if Operator.DOES_NOT_EXIST in operators:
        return not operators & {Operator.IN, Operator.EXISTS}
    allowed = [one.values for one in requirements if one.operator is Operator.IN]
    if not allowed:
        return True
    forbidden = frozenset[str]().union(*(one.values for one in requirements if one.operator is Operator.NOT_IN))
    return bool(frozenset.intersection(*allowed) - forbidden)


def _subjects_within(few: Subjects, many: Subjects) -> bool:
    """Whether everybody of the first is among the second."""
    return all(
        all(any(globs.covers(whole, part) for whole in theirs) for part in mine)
        for mine, theirs in (
            (few.users, many.users),
            (few.groups, many.groups),
            (few.service_accounts, many.service_accounts),
        )
    )


def is_everybody(subjects: Subjects) -> bool:
    """Whether nobody is left outside: every request comes from an authenticated user."""
    return "*" in subjects.users or any(globs.matches(glob, "system:authenticated") for glob in subjects.groups)
