"""The findings of a rule about a claim for devices or a template of claims, as an expression in CEL.

The sentences are those of `tallygate.admission.claim_checks`. The spec of a claim never changes
(ValidateResourceClaimUpdate in pkg/apis/resource/validation/validation.go, v1.36), so an update finds only what the
labels of the old object left out.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from tallygate.accounting.claim_charge import MAX_DEVICES
from tallygate.accounting.names import DEVICE_CLASS_PREFIX, DEVICES_SUFFIX
from tallygate.admission import rule_codes
from tallygate.admission.cel_texts import FALSE, KIND, TRUE, format_globs, join_all, join_any, quote, quote_list
from tallygate.admission.claim_checks import CLAIM_CONTROLLERS, SELECTOR_ADVICE, TEMPLATE_KIND
from tallygate.admission.evaluate import SCHEDULER_USER
from tallygate.backstop.amount_bounds import (
    MAX,
    MIN,
    MULTIPLE_OF,
    format_nearest_multiples,
    list_bound_conditions,
)
from tallygate.backstop.object_variables import IS_CLAIM, MILLI, format_list
from tallygate.backstop.subject_conditions import USER, format_subjects
from tallygate.policy.matching import FAMILY_PATTERNS
from tallygate.policy.model import AllocationMode, AmountBounds, DeviceChecks, ResourceRule
from tallygate.policy.selectors import Subjects

REQUESTS: Final = "requests"
"""The variable with the device requests of a claim: a list of alternatives for each."""

_ALL = AllocationMode.ALL.value
_EXACT = AllocationMode.EXACT_COUNT.value
_NO_USERS = Subjects()


def _alternative(place: str) -> str:
    fields = {
        "place": f"dyn({place})",
        "className": "dyn(a.?deviceClassName.orValue(''))",
        "mode": f"dyn(a.?allocationMode.orValue('{_EXACT}'))",
        "count": "dyn(a.?count.orValue(1))",
        "isAdmin": "dyn(a.?adminAccess.orValue(false))",
        "hasSelectors": "dyn(a.?selectors.orValue([]).size() > 0)",
    }
    return "{" + ", ".join(f"'{name}': {value}" for name, value in fields.items()) + "}"


_EXACTLY = _alternative("'request ' + r.name")
_FIRST_AVAILABLE = _alternative("'request ' + r.name + '/' + a.name")

REQUESTS_EXPRESSION: Final = (
    f"!({IS_CLAIM}) ? [] : [{KIND} == 'ResourceClaim' ? dyn(object).?spec : dyn(object).?spec.?spec]"
    f".map(s, {format_list('s.?devices.?requests')})[0].map(r, [?r.?exactly].map(a, {_EXACTLY})"
    f" + {format_list('r.?firstAvailable')}.map(a, {_FIRST_AVAILABLE}))"
)
"""The expression of the variable `REQUESTS`."""


def format_claim_checks(rule: ResourceRule, why: str) -> str:
    """Return the text, in CEL, of the findings about a claim; `why` is the administrator's reason, or empty."""
    selected = _format_classes(rule.resources)
    parts = []
    if rule.checks.devices is not None:
        sentences = _list_device_sentences(rule, rule.checks.devices)
        text = " + ".join(
            f"({condition} ? {sentence} + {format_origin(code, rule, why)} : '')"
            for condition, sentence, code in sentences
        )
        parts.append(f"variables.{REQUESTS}.map(r, r.map(a, {selected}, {text}).join('')).join('')")
    if rule.checks.per_claim is not None:
        parts.append(_format_amounts(rule, rule.checks.per_claim, selected, why))
    is_of_scheduler = f"{KIND} == 'ResourceClaim' && {USER} == {quote(SCHEDULER_USER)}"
    return f"({is_of_scheduler} ? '' : {' + '.join(parts)})"


def format_origin(code: str, rule: ResourceRule, why: str) -> str:
    """Return the end of a sentence: its code, the rule and the administrator's reason, and a separator."""
    return quote(f" ({code}, rule {rule.name}{f': {why}' if why else ''}); ")


def _format_classes(patterns: Sequence[str]) -> str:
    """Return the condition that patterns of resources match the devices of the class of `a`."""
    return join_all(
        (
            _join_patterns([pattern for pattern in patterns if not pattern.startswith("!")]),
            f"!({_join_patterns([pattern[1:] for pattern in patterns if pattern.startswith('!')])})",
        )
    ).replace(f"!({FALSE})", TRUE)


def _join_patterns(patterns: Sequence[str]) -> str:
    globs = [pattern for pattern in patterns if pattern not in FAMILY_PATTERNS]
    return join_any(
        (
            TRUE if "extended" in patterns else FALSE,
            *format_globs(f"(a.className + {quote(DEVICES_SUFFIX)})", globs),
            *format_globs(f"({quote(DEVICE_CLASS_PREFIX)} + a.className)", globs),
        )
    )


def _list_device_sentences(rule: ResourceRule, checks: DeviceChecks) -> Iterator[tuple[str, str, str]]:
    """Yield the condition of each violation, its sentence as text of CEL, and its code."""
    if checks.classes:
        allowed = join_any(format_globs("a.className", [glob for glob in checks.classes if not glob.startswith("!")]))
        excluded = join_any(format_globs("a.className", [glob[1:] for glob in checks.classes if glob.startswith("!")]))
        text = quote(f'" is not allowed: the rule allows {", ".join(checks.classes)}')
        yield (
            f"!({allowed}) || {excluded}",
            f"""a.place + ': class "' + a.className + {text}""",
            rule_codes.CLASS_NOT_ALLOWED,
        )
    if checks.allocation_modes:
        is_counted = AllocationMode.EXACT_COUNT in checks.allocation_modes
        advice = "write ExactCount and a count" if is_counted else "write All"
        yield (
            f"!(a.mode in {quote_list(sorted(checks.allocation_modes))})",
            f"a.place + ': allocationMode ' + a.mode + ' is not allowed: {advice}'",
            rule_codes.ALLOCATION_MODE_NOT_ALLOWED,
        )
    if checks.admin_access is not None:
        subject = "'no user may'" if checks.admin_access == _NO_USERS else f"'user ' + {USER} + ' may not'"
        yield (
            f"a.isAdmin && {_format_denied_users(rule, checks.admin_access)}",
            f"a.place + ': ' + {subject} + ' request admin access to these devices: remove adminAccess'",
            rule_codes.ADMIN_ACCESS_NOT_ALLOWED,
        )
    if checks.selectors:
        yield "!a.hasSelectors", f"a.place + {quote(f': {SELECTOR_ADVICE}')}", rule_codes.SELECTOR_MISSING


def _format_denied_users(rule: ResourceRule, allowed: Subjects) -> str:
    """Return the condition of the users that may not request admin access."""
    if allowed == _NO_USERS:
        return TRUE
    checks_templates = rule.match.kinds is None or TEMPLATE_KIND in rule.match.kinds
    controllers = f"{USER} in {quote_list(sorted(CLAIM_CONTROLLERS))}" if checks_templates else FALSE
    return f"{USER} != '' && !{join_any((FALSE, f'({format_subjects(allowed)})', controllers))}"


def _format_amounts(rule: ResourceRule, bounds: AmountBounds, selected: str, why: str) -> str:
    """Return the text of the bounds that the number of devices violates; `x` is the largest number of a claim."""
    counted = join_all((selected, "!a.isAdmin"))
    counts = f"r.filter(a, {counted} && a.mode != '{_ALL}').map(a, int(a.count))"
    largest = f"variables.{REQUESTS}.map(r, [{counts}].map(c, c.size() > 0 ? c.max() : 0)[0]).sum()"
    has_all = f"variables.{REQUESTS}.exists(r, r.exists(a, {counted} && a.mode == '{_ALL}'))"
    is_single = f"variables.{REQUESTS}.all(r, r.size() == 1)"
    origin = format_origin(rule_codes.CLAIM_BOUND, rule, why)
    start = (
        f"'the claim ' + ({is_single} && !hasAll ? 'requests ' : 'may get ') + string(x)"
        " + (x == 1 ? ' device' : ' devices')"
    )
    parts = " + ".join(
        f"({condition} ? {start} + {_describe_bound(bounds, name)} + {origin} : '')"
        for name, condition in list_bound_conditions(bounds, f"(x * {MILLI})", f"({is_single})")
    )
    largest = f"[{largest}].map(l, l > {MAX_DEVICES} || !hasAll ? l : {MAX_DEVICES})"
    return f"[{has_all}].map(hasAll, {largest}.map(x, {parts or quote('')}).join('')).join('')"


def _describe_bound(bounds: AmountBounds, name: str) -> str:
    mode = "(hasAll ? ' with allocationMode ExactCount' : '')"
    match name:
        case _ if name == MIN:
            return quote(f", fewer than the {bounds.min} that a claim must request: request {bounds.min} or more")
        case _ if name == MAX and bounds.max is not None:
            text = f", more than the {bounds.max} that one claim may have: "
            none = bounds.max.sign == 0
            return quote(f"{text}request none") if none else f"{quote(f'{text}request {bounds.max} or fewer')} + {mode}"
        case _ if name == MULTIPLE_OF and bounds.multiple_of is not None:
            nearest = format_nearest_multiples(bounds.multiple_of, f"(x * {MILLI})")
            return f"{quote(f', not a multiple of {bounds.multiple_of}: request ')} + {nearest} + {mode}"
        case _:
            choices = ", ".join(map(str, bounds.one_of))
            return f"{quote(f': request one of {choices}')} + {mode}"
