"""What is wrong with one rule by itself."""

from collections.abc import Iterator

from webhook.accounting.quantity import Quantity
from webhook.policy.amounts_allowed import allows, least_allowed
from webhook.policy.codes import (
    CHECK_WITHOUT_KIND,
    CHECKS_NOTHING,
    FRACTIONAL,
    IMPOSSIBLE_BOUNDS,
    MATCHES_NOTHING,
    REPEATED,
)
from webhook.policy.coverage import (
    excluded,
    included,
    is_countable_pattern,
    is_everybody,
    namespaces_meet,
    pattern_covers,
    selects_something,
)
from webhook.policy.finding import Finding
from webhook.policy.model import Bounds, Checks, Equality, NamespaceSelector, ResourceRule
from webhook.policy.remark import Remark, error, finding, warning

_KINDS_WITHOUT_PODS = frozenset({"Node", "ResourceQuota", "LimitRange"})


def lint_rule(rule: ResourceRule) -> Iterator[Finding]:
    """Findings about one rule."""
    for remark in (*_matching(rule), *_checking(rule), *_bounding(rule)):
        yield finding(rule, remark)


def empty_namespaces(selector: NamespaceSelector | None) -> str:
    """Why no namespace can be selected, or nothing."""
    if selector is None:
        return ""
    if not selects_something(selector.selector):
        return "no labels satisfy the selector; remove the requirement that contradicts another"
    if not namespaces_meet(selector, selector):
        return "exclude takes out everything that include lists; narrow exclude"
    return ""


def _matching(rule: ResourceRule) -> Iterator[Remark]:
    """Why nothing can ever meet the rule."""
    wanted, unwanted = included(rule.resources), excluded(rule.resources)
    if not wanted:
        yield _nothing("resources", 'only exclusions, so no resource is left; put "*" or a family before them')
    elif all(any(pattern_covers(hole, pattern) for hole in unwanted) for pattern in wanted):
        yield _nothing("resources", "everything that is included is excluded again; narrow the patterns with !")
    why = empty_namespaces(rule.match.namespaces)
    if why:
        yield _nothing("match.namespaces", why)
    if rule.match.namespaces is not None and rule.match.kinds == frozenset({"Node"}):
        yield _nothing("match.namespaces", "nodes are in no namespace; remove this, or name another kind")
    if not selects_something(rule.match.objects):
        yield _nothing("match.objects", "no labels satisfy the selector; remove what contradicts")
    if is_everybody(rule.match.except_for):
        yield _nothing("match.exceptFor", "everybody is exempt; name the groups that shall be")


def _nothing(field: str, text: str) -> Remark:
    return error(f"spec.{field}", MATCHES_NOTHING, text)


def _checking(rule: ResourceRule) -> Iterator[Remark]:
    """Checks that are all off, or that no kind of the rule can be judged by."""
    checks = rule.checks
    on = (checks.well_formed_name, checks.whole_quantity is not False, checks.requests_equal_limits != Equality.IGNORE)
    if not any((*on, checks.per_container, checks.per_pod, checks.advertised, checks.schedulable)):
        yield warning("spec.checks", CHECKS_NOTHING, "every check is switched off; switch one on or remove the rule")
    if rule.match.kinds is not None and rule.match.kinds <= _KINDS_WITHOUT_PODS:
        kinds = " and ".join(sorted(rule.match.kinds))
        verb = "has" if len(rule.match.kinds) == 1 else "have"
        text = f"{kinds} {verb} no containers, so this is never judged; add Pod to match.kinds"
        yield from (warning(f"spec.checks.{field}", CHECK_WITHOUT_KIND, text) for field in _pod_checks(checks))


def _pod_checks(checks: Checks) -> Iterator[str]:
    """The checks, of those asked for, that are about pods only."""
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


def _bounding(rule: ResourceRule) -> Iterator[Remark]:
    """Bounds that contradict themselves or one another."""
    container, pod = rule.checks.per_container, rule.checks.per_pod
    countable = all(is_countable_pattern(pattern) for pattern in included(rule.resources))
    for field, bounds in (("spec.checks.perContainer", container), ("spec.checks.perPod", pod)):
        if bounds is not None:
            yield from _bounds(field, bounds)
            yield from _fractions(field, bounds) if countable else ()
    least = least_allowed((container,)) if container is not None else None
    if pod is not None and pod.max is not None and least is not None and least > pod.max:
        text = f"{pod.max} is less than the least that one container must ask for, {least}; raise it"
        yield error("spec.checks.perPod.max", IMPOSSIBLE_BOUNDS, text)


def _bounds(field: str, bounds: Bounds) -> Iterator[Remark]:
    if bounds.multiple_of is not None and bounds.multiple_of.sign == 0:
        yield error(f"{field}.multipleOf", IMPOSSIBLE_BOUNDS, "nothing is a multiple of 0; write 1 or more")
    elif bounds.min is not None and bounds.max is not None and bounds.min > bounds.max:
        text = f"{bounds.min} is above max {bounds.max}; swap them"
        yield error(f"{field}.min", IMPOSSIBLE_BOUNDS, text)
    elif least_allowed((bounds,)) is None:
        yield error(field, IMPOSSIBLE_BOUNDS, "no amount satisfies all of these bounds; loosen one")
    else:
        yield from _unreachable(field, bounds)


def _unreachable(field: str, bounds: Bounds) -> Iterator[Remark]:
    """Values of `oneOf` that the other bounds forbid, or that stand there twice."""
    for at, choice in enumerate(bounds.one_of):
        where = f"{field}.oneOf[{at}]"
        if not allows(bounds, choice):
            text = f"{choice} is outside the other bounds; remove it or loosen them"
            yield warning(where, IMPOSSIBLE_BOUNDS, text)
        if choice in bounds.one_of[:at]:
            yield warning(where, REPEATED, f"{choice} stands there twice; remove one")


def _fractions(field: str, bounds: Bounds) -> Iterator[Remark]:
    named: list[tuple[str, Quantity | None]] = [
        ("min", bounds.min),
        ("max", bounds.max),
        ("multipleOf", bounds.multiple_of),
        *((f"oneOf[{at}]", choice) for at, choice in enumerate(bounds.one_of)),
    ]
    for name, quantity in named:
        if quantity is not None and not quantity.is_whole:
            text = f"{quantity} is a fraction of what is counted in whole units; write a whole number"
            yield warning(f"{field}.{name}", FRACTIONAL, text)
