"""The findings of a rule about an object, as an expression in CEL whose value is a text: empty if there are none.

Each sentence is that of `tallygate.admission.compiled_checks` and `object_checks`, with the name of the container in
the place of the field path. What an expression leaves out compared with them is a gap (`rule_gaps`).
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from tallygate.accounting.quantity_parser import INT64_MAX
from tallygate.admission import rule_codes
from tallygate.admission.cel_texts import (
    FALSE,
    KIND,
    TRUE,
    format_globs,
    format_namespaces,
    join_all,
    join_any,
    quote,
    quote_list,
)
from tallygate.backstop.amount_bounds import (
    MAX,
    MIN,
    MULTIPLE_OF,
    format_nearest_multiples,
    list_bound_conditions,
)
from tallygate.backstop.claim_expressions import format_claim_checks, format_origin
from tallygate.backstop.object_variables import (
    EXTENDED,
    IS_CLAIM,
    IS_UPDATE,
    MAX_ALTERNATIVES,
    MAX_ENTRIES,
    MAX_NAME_LENGTH,
    MAX_UNITS,
    MILLI,
    OPAQUE,
    WHOLE_TEXT,
)
from tallygate.backstop.subject_conditions import NAMESPACE_LABELS, format_labels, format_subjects
from tallygate.policy.matching import FAMILY_PATTERNS
from tallygate.policy.model import CLAIM_KINDS, AmountBounds, Equality, ResourceRule

COMPILED_KINDS: Final = (
    "Pod",
    "CronJob",
    "DaemonSet",
    "Deployment",
    "Job",
    "LimitRange",
    "PodTemplate",
    "ReplicaSet",
    "ReplicationController",
    "ResourceClaim",
    "ResourceClaimTemplate",
    "ResourceQuota",
    "StatefulSet",
)
"""The kinds whose objects are checked by compiled rules."""

MAX_TEXT_LENGTH: Final = 1200
"""The characters of the findings that are shown: an API server drops a message of more than 5,120 bytes."""

TOTALS: Final = "totals"
"""The variable with the effective requests of a pod."""

_PATTERN = re.compile(r"\.matches\(('[^']*'|\"[^\"]*\")\)")
_LENGTH_OF_ONE = 3  # characters of an expression for each unit of cost
_LIMIT_MISSING = " is requested without a limit; what is not overcommitted needs both, and the same: set limits["
_NOT_EQUAL = " differ; it cannot be overcommitted: set both to "
_CONTAINERS = "h.role in ['container', 'init', 'sidecar']"
_IS_COUNTABLE = "e.family != ''"
_IS_BINARY = "(x.name.contains('memory') || x.name.contains('storage') || x.name.startsWith('hugepages-'))"
_TOTAL = (
    f"({_IS_BINARY} && x.m % {2**20 * MILLI} == 0 ? string(x.m / {2**20 * MILLI}) + 'Mi'"
    f" : x.m % {MILLI} == 0 ? string(x.m / {MILLI}) : string(x.m) + 'm')"
)


def list_compiled_kinds(rule: ResourceRule) -> list[str]:
    """Return the kinds that a rule applies to and that are compiled."""
    return [kind for kind in COMPILED_KINDS if rule.match.kinds is None or kind in rule.match.kinds]


class RuleFindings(NamedTuple):
    """The findings of a rule as a text of CEL, empty without any, and its highest cost, estimated."""

    text: str
    cost: int


def format_findings(rule: ResourceRule) -> RuleFindings:
    """Return the findings of a rule."""
    kinds = list_compiled_kinds(rule)
    why = " ".join(rule.reason.split())
    of_claims = format_claim_checks(rule, why) if has_claim_checks(rule) and CLAIM_KINDS & {*kinds} else ""
    parts = [part for part in (_format_entries(rule, why), _format_totals(rule, why)) if part]
    of_objects = f"({' + '.join(parts)})" if parts and {*kinds} - CLAIM_KINDS else ""
    cost = max(_estimate_cost(of_objects, MAX_ENTRIES), _estimate_cost(of_claims, MAX_ALTERNATIVES))
    if of_claims:
        is_old = f"{IS_UPDATE} && {_format_old_scope(rule)}"
        of_claims = f"({is_old} ? '' : {of_claims})"
    text = f"({IS_CLAIM} ? {of_claims} : {of_objects})" if of_claims and of_objects else of_claims or of_objects
    if not text:
        return RuleFindings("", 0)
    text = f"[{text}].map(s, s.size() > {MAX_TEXT_LENGTH} ? s.substring(0, {MAX_TEXT_LENGTH}) + '…' : s)[0]"
    scope = join_all((format_broad_scope(rule), format_narrow_scope(rule)))
    return RuleFindings(text if scope == TRUE else f"{scope} ? {text} : ''", cost)


def _estimate_cost(text: str, count: int) -> int:
    """Return a bound of the cost of a text that is evaluated for each of a number of entries.

    A function costs 1, or a tenth for each character of a text; a pattern costs a fortieth for each of its characters
    and each of a text (interpreter/runtimecost.go in cel-go, v0.26). So the length of the text is a measure; no hostile
    object in `tests/backstop` costs more.
    """
    in_patterns = sum(map(len, _PATTERN.findall(text)))
    return count * (len(text) // _LENGTH_OF_ONE + in_patterns * -(-MAX_NAME_LENGTH // 40))


def has_claim_checks(rule: ResourceRule) -> bool:
    return rule.checks.per_claim is not None or rule.checks.devices is not None


def format_broad_scope(rule: ResourceRule) -> str:
    """Return the condition of the kinds and the names of namespaces of a rule, which a match condition knows."""
    kinds = list_compiled_kinds(rule)
    of_kinds = TRUE if len(kinds) == len(COMPILED_KINDS) else f"{KIND} in {quote_list(kinds)}"
    selector = rule.match.namespaces
    of_names = TRUE if selector is None else format_namespaces(selector.include, selector.exclude)
    return join_all((of_kinds, of_names))


def format_narrow_scope(rule: ResourceRule) -> str:
    """Return the condition of the user, the labels of the object and those of the namespace."""
    exempt, namespaces = format_subjects(rule.match.exempt), rule.match.namespaces
    return join_all(
        (
            TRUE if exempt == FALSE else f"!({exempt})",
            format_labels(rule.match.object_selector, "variables.labels"),
            format_labels(namespaces.selector if namespaces is not None else None, NAMESPACE_LABELS),
        )
    )


def _format_old_scope(rule: ResourceRule) -> str:
    """Return the condition that the rule applied to the stored object, of the same kind, namespace and user."""
    return format_labels(rule.match.object_selector, "variables.oldLabels")


def format_patterns(patterns: Sequence[str], name: str, family: str) -> str:
    """Return the condition that patterns of resources match a name of a family."""
    included, excluded = (
        join_any(
            (
                *(f"{family} == {quote(pattern)}" for pattern in (EXTENDED, OPAQUE) if pattern in chosen),
                *format_globs(name, [pattern for pattern in chosen if pattern not in FAMILY_PATTERNS]),
            )
        )
        for chosen in (
            [pattern for pattern in patterns if not pattern.startswith("!")],
            [pattern[1:] for pattern in patterns if pattern.startswith("!")],
        )
    )
    return join_all((included, TRUE if excluded == FALSE else f"!({excluded})"))


def _format_entries(rule: ResourceRule, why: str) -> str:
    """Return the text of the checks of each quantity, empty if there are none."""
    sentences = [
        *_list_whole_sentences(rule),
        *_list_equality_sentences(rule),
        *_list_container_sentences(rule),
    ]
    if not sentences:
        return ""
    text = " + ".join(
        f"({condition} ? h.place + ': ' + {sentence} + {format_origin(code, rule, why)} : '')"
        for condition, sentence, code in sentences
    )
    named = format_patterns(rule.resources, "e.name", "e.family")
    chosen = "" if named == TRUE else f" {named},"
    return f"variables.holders.map(h, h.entries.map(e,{chosen} {text}).join('')).join('')"


def _is_new(rule: ResourceRule, field: str = "isOld") -> str:
    """Return the condition that a change brought an entry, or brought the object into the scope of the rule."""
    return f"!{join_all((f'e.{field}', _format_old_scope(rule)))}"


def _format_countable(*, setting: bool | None) -> str:
    return FALSE if setting is False else TRUE if setting else _IS_COUNTABLE


def _list_whole_sentences(rule: ResourceRule) -> Iterator[tuple[str, str, str]]:
    """Yield the condition of each violation, its sentence as text of CEL, and its code."""
    checked = join_all((_format_countable(setting=rule.checks.whole_quantity), _is_new(rule)))
    if checked == FALSE:
        return
    is_fraction = (
        f"(e.exact ? e.m % {MILLI} != 0 : !quantity(e.amount).isInteger() && !e.amount.matches({quote(WHOLE_TEXT)}))"
    )
    advice = f"(e.m < {MILLI} ? '1' : string(e.m / {MILLI}) + ' or ' + string(e.m / {MILLI} + 1))"
    verb = "(h.role in ['quota', 'range'] ? 'write ' : 'request ')"
    yield (
        join_all((checked, "e.m < 0")),
        f"e.amount + ' is below zero: ' + {verb} + '0 or more'",
        rule_codes.NEGATIVE,
    )
    yield (
        join_all((checked, "e.m >= 0", is_fraction)),
        f"e.amount + ' is not a whole number; ' + e.name + ' is counted in whole units: ' + {verb} + {advice}",
        rule_codes.NOT_WHOLE,
    )
    yield (
        join_all(
            (checked, f"e.m == {MAX_UNITS * MILLI}", f"quantity(e.amount).isGreaterThan(quantity('{INT64_MAX}'))")
        ),
        f"e.amount + ' is too large: Kubernetes stores at most {INT64_MAX} and would count another amount'",
        rule_codes.TOO_LARGE,
    )


def _list_equality_sentences(rule: ResourceRule) -> Iterator[tuple[str, str, str]]:
    equality = rule.checks.requests_equal_limits
    if equality is Equality.IGNORE:
        return
    checked = join_all(
        (
            TRUE if equality is not None else _IS_COUNTABLE,
            _is_new(rule, "isOldPair"),
            "e.field == 'requests'",
            "h.role in ['container', 'init', 'sidecar', 'pod']",
        )
    )
    is_whole = _format_countable(setting=rule.checks.whole_quantity)
    up = f"string((e.m + {MILLI - 1}) / {MILLI})"
    amount = "e.amount" if is_whole == FALSE else f"(e.exact && {is_whole} ? {up} : e.amount)"
    larger = "(quantity(e.amount).isLessThan(quantity(e.limit)) ? e.limit : e.amount)"
    if equality is not Equality.FILL:
        yield (
            join_all((checked, "e.limit == ''")),
            f"e.name + {quote(_LIMIT_MISSING)} + e.name + '] to ' + {amount}",
            rule_codes.LIMIT_MISSING,
        )
    yield (
        join_all(
            (
                checked,
                "e.limit != '' && e.limit != e.amount && quantity(e.amount).compareTo(quantity(e.limit)) != 0",
            )
        ),
        f"'request ' + e.amount + ' and limit ' + e.limit + ' of ' + e.name + {quote(_NOT_EQUAL)} + {larger}",
        rule_codes.REQUEST_NOT_LIMIT,
    )


def _list_container_sentences(rule: ResourceRule) -> Iterator[tuple[str, str, str]]:
    bounds = rule.checks.per_container
    if bounds is None:
        return
    for name, condition in list_bound_conditions(bounds, "e.m", "e.exact"):
        violated = join_all((_CONTAINERS, _is_new(rule), f"({condition})"))
        match name:
            case _ if name == MIN:
                text = f"' is less than the {bounds.min} ' + e.name + ' that a container must request'"
                yield violated, f"e.amount + {text}", rule_codes.CONTAINER_BOUND
            case _ if name == MAX and bounds.max is not None and bounds.max.sign == 0:
                yield violated, "'no container may request ' + e.name + ': remove it'", rule_codes.CONTAINER_BOUND
            case _ if name == MAX:
                text = f"' is more than one container may have of ' + e.name + ': request {bounds.max} or less'"
                yield violated, f"e.amount + {text}", rule_codes.CONTAINER_BOUND
            case _ if name == MULTIPLE_OF and bounds.multiple_of is not None:
                text = f"' is not a multiple of {bounds.multiple_of}: request '"
                nearest = format_nearest_multiples(bounds.multiple_of, "e.m")
                yield violated, f"e.amount + {text} + {nearest}", rule_codes.NOT_A_MULTIPLE
            case _:
                allowed = ", ".join(map(str, bounds.one_of))
                text = f"' is not an allowed amount of ' + e.name + ': request one of {allowed}'"
                yield violated, f"e.amount + {text}", rule_codes.NOT_ONE_OF


def format_total_condition(rule: ResourceRule) -> str:
    """Return the condition of the names `e.name` of which a rule limits the effective request; false for none."""
    if rule.checks.per_pod is None:
        return FALSE
    return format_patterns(rule.resources, "e.name", "e.family")


def _format_totals(rule: ResourceRule, why: str) -> str:
    """Return the text of the checks of the effective request of a pod, empty if there are none."""
    bounds = rule.checks.per_pod
    if bounds is None:
        return ""
    is_new = f"!{join_all(('x.isOld', _format_old_scope(rule)))}"
    text = " + ".join(
        f"({is_new} && ({condition}) ? 'spec: the pod requests ' + {_TOTAL} + ' ' + x.name + ' in all'"
        f" + {_describe_pod_bound(bounds, name)} + {format_origin(rule_codes.POD_BOUND, rule, why)} : '')"
        for name, condition in list_bound_conditions(bounds, "x.m", "x.exact")
    )
    if not text:
        return ""
    named = format_patterns(rule.resources, "x.name", "x.family")
    chosen = "" if named == TRUE else f" {named},"
    return f"variables.{TOTALS}.map(l, l.map(x,{chosen} {text}).join('')).join('')"


def _describe_pod_bound(bounds: AmountBounds, name: str) -> str:
    match name:
        case _ if name == MIN:
            return quote(f", less than the {bounds.min} that a pod must request")
        case _ if name == MAX:
            none = bounds.max is not None and bounds.max.sign == 0
            return quote(", which no pod may have" if none else f", more than the {bounds.max} that one pod may have")
        case _ if name == MULTIPLE_OF and bounds.multiple_of is not None:
            nearest = format_nearest_multiples(bounds.multiple_of, "x.m")
            return f"{quote(f', not a multiple of {bounds.multiple_of}: request ')} + {nearest}"
        case _:
            return quote(f": request one of {', '.join(map(str, bounds.one_of))}")
