"""Scopes of a ResourceQuota: which of them exist, go together, and suit what is limited.

Source: validateResourceQuotaScopes and validateScopedResourceSelectorRequirement in
pkg/apis/core/validation/validation.go, IsResourceQuotaScopeValidForResource in pkg/apis/core/helper/helpers.go, v1.36.
"""

from collections.abc import Collection, Iterator
from itertools import islice
from typing import Any

from webhook.accounting.name_rules import is_standard_quota_name
from webhook.accounting.problem import Problem, Reason
from webhook.accounting.resource_codes import SCOPE_OPERATOR, SCOPE_UNKNOWN, SCOPE_UNSUITABLE, SCOPES_CONFLICT
from webhook.accounting.validation.printing import printed
from webhook.objects.cluster import QuotaSpec, ScopeRequirement

MOST = 1000
"""How many problems of one kind are told."""

_PODS = frozenset({"pods"})
_COMPUTE = _PODS | {"cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"}
_SUITS = {
    "Terminating": _COMPUTE,
    "NotTerminating": _COMPUTE,
    "BestEffort": _PODS,
    "NotBestEffort": _COMPUTE,
    "PriorityClass": _COMPUTE,
    "CrossNamespacePodAffinity": _COMPUTE,
    "VolumeAttributesClass": frozenset({"persistentvolumeclaims", "requests.storage"}),
}
_EXISTS_ONLY = _SUITS.keys() - {"PriorityClass", "VolumeAttributesClass"}
_OPPOSITES = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
_EXISTS_DETAIL = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)


def scope_problems(path: str, spec: QuotaSpec) -> list[Problem]:
    """What is wrong with `spec.scopes`; the first `MOST` of it, since scopes and keys multiply."""
    return list(islice(_scope_problems(path, spec, spec.scopes or []), MOST))


def selector_problems(path: str, spec: QuotaSpec) -> list[Problem]:
    """What is wrong with the expressions of `spec.scopeSelector`, likewise.

    Kubernetes' paths do not say which expression it is.
    """
    expressions = (spec.scope_selector and spec.scope_selector.match_expressions) or []
    return list(islice(_expression_problems(path, spec, expressions), MOST))


def _scope_problems(path: str, spec: QuotaSpec, scopes: list[str]) -> Iterator[Problem]:
    shown, keys = printed(spec.scopes), _standard_keys(spec)
    for scope in scopes:
        if scope not in _SUITS:
            yield _unknown(path, scope, shown)
        yield from _unsuitable(path, scope, keys, shown)
    yield from _conflicts(path, scopes, shown)


def _expression_problems(path: str, spec: QuotaSpec, expressions: list[ScopeRequirement]) -> Iterator[Problem]:
    shown, keys = printed(_internal(expressions)), _standard_keys(spec)
    for each in expressions:
        scope = each.scope_name or ""
        if scope not in _SUITS:
            yield _unknown(f"{path}.scopeName", scope, printed(scope))
        yield from _unsuitable(path, scope, keys, shown)
        yield from _operator_problems(path, each)
    yield from _conflicts(path, [each.scope_name or "" for each in expressions], printed(spec.scopes))


def _standard_keys(spec: QuotaSpec) -> list[str]:
    """The limited keys that scopes are checked against: those with a domain are not looked at."""
    return [key for key in sorted(spec.hard or ()) if is_standard_quota_name(key)]


def _internal(expressions: list[ScopeRequirement]) -> Any:
    """The selector as Kubernetes prints it, which is its internal form."""
    return {
        "MatchExpressions": [
            {"ScopeName": each.scope_name or "", "Operator": each.operator or "", "Values": each.values}
            for each in expressions
        ]
    }


def _unknown(path: str, scope: str, shown: str) -> Problem:
    message = f"there is no scope {scope!r}; use one of {', '.join(_SUITS)}"
    return Problem(path, SCOPE_UNKNOWN.number, Reason.INVALID, message, "unsupported scope", shown)


def _unsuitable(path: str, scope: str, keys: list[str], shown: str) -> Iterator[Problem]:
    """One problem for each limited key that the scope cannot select."""
    suits = _SUITS.get(scope, keys)
    for key in keys:
        if key not in suits:
            message, detail = _unsuitable_message(scope, key), "unsupported scope applied to resource"
            yield Problem(path, SCOPE_UNSUITABLE.number, Reason.INVALID, message, detail, shown)


def _unsuitable_message(scope: str, key: str) -> str:
    return (
        f"scope {scope} cannot apply to {key}; it goes with {', '.join(sorted(_SUITS[scope]))}: use a quota of its own"
    )


def _conflicts(path: str, scopes: Collection[str], shown: str) -> list[Problem]:
    """Opposite scopes."""
    given, code, detail = set(scopes), SCOPES_CONFLICT.number, "conflicting scopes"
    return [
        Problem(path, code, Reason.INVALID, _conflict_message(pair), detail, shown)
        for pair in _OPPOSITES
        if pair <= given
    ]


def _conflict_message(pair: Collection[str]) -> str:
    one, other = sorted(pair)
    return f"no pod is both {one} and {other}; leave one of them"


def _operator_problems(path: str, each: ScopeRequirement) -> list[Problem]:
    """What is wrong with an expression's operator and values."""
    operator, values = each.operator or "", each.values or []
    problems = []
    if each.scope_name in _EXISTS_ONLY and operator != "Exists":
        message = f"scope {each.scope_name} takes the operator Exists only, not {operator!r}"
        problems.append(_operator(f"{path}.operator", Reason.INVALID, message, _EXISTS_DETAIL, printed(operator)))
    if operator in ("In", "NotIn"):
        if not values:
            detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            message = f"operator {operator} needs values"
            problems.append(_operator(f"{path}.values", Reason.REQUIRED, message, detail))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
            message = f"operator {operator} takes no values"
            problems.append(_operator(f"{path}.values", Reason.INVALID, message, detail, printed(values)))
    else:
        message = f"there is no operator {operator!r}; use In, NotIn, Exists or DoesNotExist"
        problems.append(
            _operator(f"{path}.operator", Reason.INVALID, message, "not a valid selector operator", printed(operator))
        )
    return problems


def _operator(path: str, reason: Reason, message: str, detail: str, value: str = "") -> Problem:
    return Problem(path, SCOPE_OPERATOR.number, reason, message, detail, value)
