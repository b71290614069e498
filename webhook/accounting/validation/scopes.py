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
from webhook.accounting.validation.printing import encode_go_json
from webhook.objects.cluster import ResourceQuotaSpec, ScopeRequirement

MAX_SCOPE_PROBLEMS = 1000
"""How many problems of one kind are told."""

_POD_KEYS = frozenset({"pods"})
_COMPUTE_KEYS = _POD_KEYS | {"cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"}
_KEYS_BY_SCOPE = {
    "Terminating": _COMPUTE_KEYS,
    "NotTerminating": _COMPUTE_KEYS,
    "BestEffort": _POD_KEYS,
    "NotBestEffort": _COMPUTE_KEYS,
    "PriorityClass": _COMPUTE_KEYS,
    "CrossNamespacePodAffinity": _COMPUTE_KEYS,
    "VolumeAttributesClass": frozenset({"persistentvolumeclaims", "requests.storage"}),
}
_EXISTS_ONLY_SCOPES = _KEYS_BY_SCOPE.keys() - {"PriorityClass", "VolumeAttributesClass"}
_OPPOSITE_SCOPES = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
_EXISTS_DETAIL = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)


def check_scopes(path: str, spec: ResourceQuotaSpec) -> list[Problem]:
    """What is wrong with `spec.scopes`; the first `MOST` of it, since scopes and keys multiply."""
    return list(islice(_check_each_scope(path, spec, spec.scopes or []), MAX_SCOPE_PROBLEMS))


def check_scope_selector(path: str, spec: ResourceQuotaSpec) -> list[Problem]:
    """What is wrong with the expressions of `spec.scopeSelector`, likewise.

    Kubernetes' paths do not say which expression it is.
    """
    expressions = (spec.scope_selector and spec.scope_selector.match_expressions) or []
    return list(islice(_check_each_expression(path, spec, expressions), MAX_SCOPE_PROBLEMS))


def _check_each_scope(path: str, spec: ResourceQuotaSpec, scopes: list[str]) -> Iterator[Problem]:
    value, keys = encode_go_json(spec.scopes), _list_standard_keys(spec)
    for scope in scopes:
        if scope not in _KEYS_BY_SCOPE:
            yield _create_unknown_scope_problem(path, scope, value)
        yield from _check_suitable_keys(path, scope, keys, value)
    yield from _check_conflicts(path, scopes, value)


def _check_each_expression(
    path: str, spec: ResourceQuotaSpec, expressions: list[ScopeRequirement]
) -> Iterator[Problem]:
    value, keys = encode_go_json(_build_internal_selector(expressions)), _list_standard_keys(spec)
    for expression in expressions:
        scope = expression.scope_name or ""
        if scope not in _KEYS_BY_SCOPE:
            yield _create_unknown_scope_problem(f"{path}.scopeName", scope, encode_go_json(scope))
        yield from _check_suitable_keys(path, scope, keys, value)
        yield from _check_operator(path, expression)
    yield from _check_conflicts(path, [each.scope_name or "" for each in expressions], encode_go_json(spec.scopes))


def _list_standard_keys(spec: ResourceQuotaSpec) -> list[str]:
    """The limited keys that scopes are checked against: those with a domain are not looked at."""
    return [key for key in sorted(spec.hard or ()) if is_standard_quota_name(key)]


def _build_internal_selector(expressions: list[ScopeRequirement]) -> Any:
    """The selector as Kubernetes prints it, which is its internal form."""
    return {
        "MatchExpressions": [
            {"ScopeName": each.scope_name or "", "Operator": each.operator or "", "Values": each.values}
            for each in expressions
        ]
    }


def _create_unknown_scope_problem(path: str, scope: str, value: str) -> Problem:
    message = f"there is no scope {scope!r}; use one of {', '.join(_KEYS_BY_SCOPE)}"
    return Problem(path, SCOPE_UNKNOWN.number, Reason.INVALID, message, "unsupported scope", value)


def _check_suitable_keys(path: str, scope: str, keys: list[str], value: str) -> Iterator[Problem]:
    """One problem for each limited key that the scope cannot select."""
    suitable_keys = _KEYS_BY_SCOPE.get(scope, keys)
    for key in keys:
        if key not in suitable_keys:
            message, detail = _describe_unsuitable(scope, key), "unsupported scope applied to resource"
            yield Problem(path, SCOPE_UNSUITABLE.number, Reason.INVALID, message, detail, value)


def _describe_unsuitable(scope: str, key: str) -> str:
    return (
        f"scope {scope} cannot apply to {key}; it goes with {', '.join(sorted(_KEYS_BY_SCOPE[scope]))}: use a "
        "quota of its own"
    )


def _check_conflicts(path: str, scopes: Collection[str], value: str) -> list[Problem]:
    """Opposite scopes."""
    scope_set, code, detail = set(scopes), SCOPES_CONFLICT.number, "conflicting scopes"
    return [
        Problem(path, code, Reason.INVALID, _describe_conflict(pair), detail, value)
        for pair in _OPPOSITE_SCOPES
        if pair <= scope_set
    ]


def _describe_conflict(pair: Collection[str]) -> str:
    first, second = sorted(pair)
    return f"no pod is both {first} and {second}; leave one of them"


def _check_operator(path: str, expression: ScopeRequirement) -> list[Problem]:
    """What is wrong with an expression's operator and values."""
    operator, values = expression.operator or "", expression.values or []
    problems = []
    if expression.scope_name in _EXISTS_ONLY_SCOPES and operator != "Exists":
        message = f"scope {expression.scope_name} takes the operator Exists only, not {operator!r}"
        problems.append(
            _create_operator_problem(
                f"{path}.operator", Reason.INVALID, message, _EXISTS_DETAIL, encode_go_json(operator)
            )
        )
    if operator in ("In", "NotIn"):
        if not values:
            detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            message = f"operator {operator} needs values"
            problems.append(_create_operator_problem(f"{path}.values", Reason.REQUIRED, message, detail))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
            message = f"operator {operator} takes no values"
            problems.append(
                _create_operator_problem(f"{path}.values", Reason.INVALID, message, detail, encode_go_json(values))
            )
    else:
        message = f"there is no operator {operator!r}; use In, NotIn, Exists or DoesNotExist"
        problems.append(
            _create_operator_problem(
                f"{path}.operator", Reason.INVALID, message, "not a valid selector operator", encode_go_json(operator)
            )
        )
    return problems


def _create_operator_problem(path: str, reason: Reason, message: str, detail: str, value: str = "") -> Problem:
    return Problem(path, SCOPE_OPERATOR.number, reason, message, detail, value)
