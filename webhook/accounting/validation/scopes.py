"""Scopes of a ResourceQuota: which of them exist, go together, and suit what is limited.

Source: validateResourceQuotaScopes and validateScopedResourceSelectorRequirement in
pkg/apis/core/validation/validation.go, IsResourceQuotaScopeValidForResource in pkg/apis/core/helper/helpers.go, v1.36.
"""

from collections.abc import Collection
from typing import Any

from webhook.accounting.name_rules import is_standard_quota_name
from webhook.accounting.problem import Problem, Reason
from webhook.accounting.resource_codes import SCOPE_OPERATOR, SCOPE_UNKNOWN, SCOPE_UNSUITABLE, SCOPES_CONFLICT
from webhook.accounting.validation.printing import printed
from webhook.objects.cluster import QuotaSpec, ScopeRequirement

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
    """What is wrong with `spec.scopes`."""
    problems: list[Problem] = []
    for scope in spec.scopes or ():
        if scope not in _SUITS:
            problems.append(_unknown(path, scope, spec.scopes))
        problems += _unsuitable(path, scope, spec, spec.scopes)
    return problems + _conflicts(path, spec.scopes or (), spec.scopes)


def selector_problems(path: str, spec: QuotaSpec) -> list[Problem]:
    """What is wrong with the expressions of `spec.scopeSelector`. Kubernetes' paths do not say which expression."""
    if spec.scope_selector is None:
        return []
    expressions = spec.scope_selector.match_expressions or []
    problems: list[Problem] = []
    for each in expressions:
        scope = each.scope_name or ""
        if scope not in _SUITS:
            problems.append(_unknown(f"{path}.scopeName", scope, scope))
        problems += _unsuitable(path, scope, spec, _internal(expressions))
        problems += _operator_problems(path, each)
    return problems + _conflicts(path, [each.scope_name or "" for each in expressions], spec.scopes)


def _internal(expressions: list[ScopeRequirement]) -> Any:
    """The selector as Kubernetes prints it, which is its internal form."""
    return {
        "MatchExpressions": [
            {"ScopeName": each.scope_name or "", "Operator": each.operator or "", "Values": each.values}
            for each in expressions
        ]
    }


def _unknown(path: str, scope: str, shown: Any) -> Problem:
    message = f"there is no scope {scope!r}; use one of {', '.join(_SUITS)}"
    return Problem(path, SCOPE_UNKNOWN.number, Reason.INVALID, message, "unsupported scope", printed(shown))


def _unsuitable(path: str, scope: str, spec: QuotaSpec, shown: Any) -> list[Problem]:
    """One problem for each limited key that the scope cannot select. Keys with a domain are not looked at."""
    suits = _SUITS.get(scope)
    keys = (
        []
        if suits is None
        else [key for key in sorted(spec.hard or ()) if is_standard_quota_name(key) and key not in suits]
    )
    value, detail = printed(shown), "unsupported scope applied to resource"
    code = SCOPE_UNSUITABLE.number
    return [Problem(path, code, Reason.INVALID, _unsuitable_message(scope, key), detail, value) for key in keys]


def _unsuitable_message(scope: str, key: str) -> str:
    return (
        f"scope {scope} cannot apply to {key}; it goes with {', '.join(sorted(_SUITS[scope]))}: use a quota of its own"
    )


def _conflicts(path: str, scopes: Collection[str], shown: Any) -> list[Problem]:
    """Opposite scopes."""
    code, value = SCOPES_CONFLICT.number, printed(shown)
    return [
        Problem(path, code, Reason.INVALID, _conflict_message(pair), "conflicting scopes", value)
        for pair in _OPPOSITES
        if pair <= set(scopes)
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
