"""What is wrong with two rules together: one says nothing new, or no request can satisfy both."""

from collections.abc import Iterator

from webhook.policy.amounts_allowed import least_allowed
from webhook.policy.codes import CONTRADICTORY, SHADOWED
from webhook.policy.coverage import covers, included, may_share, resources_cover, resources_meet
from webhook.policy.finding import Finding
from webhook.policy.globs import is_literal
from webhook.policy.model import Bounds, Checks, Enforcement, Equality, ResourceRule
from webhook.policy.remark import error, finding, warning

_STRICTNESS = (Enforcement.AUDIT, Enforcement.WARN, Enforcement.DENY)
_EVERYWHERE = ""


def lint_pairs(rules: tuple[ResourceRule, ...]) -> Iterator[Finding]:
    """Findings about each two rules that may speak of one resource."""
    shadowed: set[str] = set()
    for one, other in _neighbours(rules):
        for narrow, wide in _shadowing(one, other):
            if narrow.name not in shadowed:
                shadowed.add(narrow.name)
                text = f'says nothing that rule "{wide.name}" ({wide.source}) does not say already; remove one'
                yield finding(narrow, warning("", SHADOWED, text))
        yield from _contradiction(one, other)


def _neighbours(rules: tuple[ResourceRule, ...]) -> Iterator[tuple[ResourceRule, ResourceRule]]:
    """Each two rules, but for those on different domains, so that a thousand rules for as many vendors are quick."""
    by_domain: dict[str, list[int]] = {}
    for at, rule in enumerate(rules):
        domains = _domains(rule)
        near = {earlier for domain in (*domains, _EVERYWHERE) for earlier in by_domain.get(domain, ())}
        yield from ((rules[earlier], rule) for earlier in (range(at) if _EVERYWHERE in domains else sorted(near)))
        for domain in domains:
            by_domain.setdefault(domain, []).append(at)


def _domains(rule: ResourceRule) -> set[str]:
    """The domains that a rule's resources are in; what may be in any is everywhere."""
    domains = (pattern.partition("/") for pattern in included(rule.resources))
    return {domain if slash and is_literal(domain) else _EVERYWHERE for domain, slash, _ in domains}


def _shadowing(one: ResourceRule, other: ResourceRule) -> Iterator[tuple[ResourceRule, ResourceRule]]:
    """The rule in the shadow and the one that throws it; the later one is in it when each shadows the other."""
    for narrow, wide in ((other, one), (one, other)):
        if _shadows(wide, narrow):
            yield narrow, wide
            return


def _shadows(wide: ResourceRule, narrow: ResourceRule) -> bool:
    return (
        bool(included(narrow.resources))
        and _STRICTNESS.index(wide.enforcement) >= _STRICTNESS.index(narrow.enforcement)
        and _implies(wide.checks, narrow.checks)
        and covers(wide.match, narrow.match)
        and resources_cover(wide.resources, narrow.resources)
    )


def _implies(strict: Checks, lax: Checks) -> bool:
    """Whether what passes the one set of checks passes the other, and is filled in likewise."""
    return (
        (strict.well_formed_name or not lax.well_formed_name)
        and _wholeness(strict) >= _wholeness(lax)
        and _equality_implies(strict.requests_equal_limits, lax.requests_equal_limits)
        and _bounds_imply(strict.per_container, lax.per_container)
        and _bounds_imply(strict.per_pod, lax.per_pod)
        and (strict.advertised or not lax.advertised)
        and lax.schedulable in {None, strict.schedulable}
    )


def _wholeness(checks: Checks) -> int:
    """For none, for countable resources, for all."""
    return {False: 0, None: 1, True: 2}[checks.whole_quantity]


def _equality_implies(strict: Equality | None, lax: Equality | None) -> bool:
    if Equality.FILL in {strict, lax}:
        return strict is lax or lax is Equality.IGNORE
    return lax in {Equality.IGNORE, strict} or strict is Equality.REQUIRE


def _bounds_imply(strict: Bounds | None, lax: Bounds | None) -> bool:
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


def _contradiction(one: ResourceRule, other: ResourceRule) -> Iterator[Finding]:
    """An error where the one is for everything that the other is for, else a warning: they may never meet."""
    if not (_bounds_anything(one) and _bounds_anything(other)) or not may_share(one.match, other.match):
        return
    if not resources_meet(one.resources, other.resources):
        return
    mine, theirs = _unsatisfiable(other.checks, one.checks)
    if not mine:
        return
    surely = covers(one.match, other.match) or covers(other.match, one.match)
    denied = one.enforcement is other.enforcement is Enforcement.DENY
    say = error if surely and denied else warning
    text = f'no amount satisfies both this and rule "{one.name}" ({one.place(theirs)}); narrow one of them'
    yield finding(other, say(mine, CONTRADICTORY, text))


def _bounds_anything(rule: ResourceRule) -> bool:
    """Whether the rule says to a user what amounts may be."""
    bounds = rule.checks.per_container is not None or rule.checks.per_pod is not None
    return bounds and rule.enforcement is not Enforcement.AUDIT


def _unsatisfiable(mine: Checks, theirs: Checks) -> tuple[str, str]:
    """The fields of the two that no amount suits, or nothing; bounds that are impossible alone are told elsewhere."""
    if _clash(mine.per_container, theirs.per_container):
        return _CONTAINER, _CONTAINER
    if _clash(mine.per_pod, theirs.per_pod):
        return _POD, _POD
    if _outgrows(mine.per_container, theirs.per_pod):
        return _CONTAINER, _POD
    return (_POD, _CONTAINER) if _outgrows(theirs.per_container, mine.per_pod) else ("", "")


_CONTAINER, _POD = "spec.checks.perContainer", "spec.checks.perPod"


def _forbids(bounds: Bounds) -> bool:
    """Whether the bounds say *none at all*: a prohibition beside a rule is meant, not a contradiction."""
    return bounds.max is not None and bounds.max.sign == 0


def _clash(mine: Bounds | None, theirs: Bounds | None) -> bool:
    """Whether each bounds leave something and both together nothing."""
    if mine is None or theirs is None or _forbids(mine) or _forbids(theirs):
        return False
    each = least_allowed((mine,)) is not None and least_allowed((theirs,)) is not None
    return each and least_allowed((mine, theirs)) is None


def _outgrows(container: Bounds | None, pod: Bounds | None) -> bool:
    """Whether one container must ask for more than a pod may."""
    if container is None or pod is None or pod.max is None or _forbids(pod):
        return False
    least = least_allowed((container,))
    return least is not None and least > pod.max
