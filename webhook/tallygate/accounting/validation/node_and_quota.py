"""Validation of nodes and ResourceQuotas: names, values and scopes, strict checks included.

Nodes: ValidateNodeResources in pkg/apis/core/validation/validation.go and SetDefaults_NodeStatus in
pkg/apis/core/v1/defaults.go, v1.36.

ResourceQuotas: ValidateResourceQuota, validateResourceQuotaScopes and validateScopedResourceSelectorRequirement in
pkg/apis/core/validation/validation.go, IsResourceQuotaScopeValidForResource in pkg/apis/core/helper/helpers.go, v1.36.

The strict checks report objects that Kubernetes accepts. Kubernetes checks extended resources only: opaque resources,
and all other names that contain `kubernetes.io/`, may have fractions; it does not check names in a node's status; a
quota may limit a name that is never counted.
"""

from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from typing import Any

from tallygate.accounting import kubernetes_codes
from tallygate.accounting.name_rules import NameContext, find_advertised_name_problems, is_standard_quota_name
from tallygate.accounting.names import LIMITS_PREFIX, REQUESTS_PREFIX, is_countable, is_integer
from tallygate.accounting.pod_resources import parse_resource_list
from tallygate.accounting.problem import Problem, Reason, encode_go_json
from tallygate.accounting.resource_quota import is_counted_key
from tallygate.accounting.validation.unreadable import check_resource_list, drop_unreadable
from tallygate.accounting.validation.values import (
    check_name,
    check_value,
    create_accepted_problem,
    create_fraction_problem,
    is_unchecked_integer,
)
from tallygate.objects.core import Node, ResourceList, ResourceQuota, ResourceQuotaSpec, ScopeRequirement

MAX_SCOPE_PROBLEMS = 1000
"""The largest number of problems of one kind that are reported."""

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

_COUNT_PREFIX = "count/"
_RESOURCES_BY_GROUP: Mapping[str, str] = {
    "": "configmaps endpoints events limitranges persistentvolumeclaims pods podtemplates replicationcontrollers "
    "resourcequotas secrets serviceaccounts services",
    "apps": "controllerrevisions daemonsets deployments replicasets statefulsets",
    "autoscaling": "horizontalpodautoscalers",
    "batch": "cronjobs jobs",
    "coordination.k8s.io": "leases",
    "discovery.k8s.io": "endpointslices",
    "events.k8s.io": "events",
    "networking.k8s.io": "ingresses networkpolicies",
    "policy": "poddisruptionbudgets",
    "rbac.authorization.k8s.io": "rolebindings roles",
    "resource.k8s.io": "resourceclaims resourceclaimtemplates",
    "storage.k8s.io": "csistoragecapacities",
}
"""The namespaced resources of Kubernetes by their API group, as a quota counts them."""
_OTHER_QUOTA_INFIXES = (
    ".storageclass.storage.k8s.io/",
    ".volumeattributesclass.storage.k8s.io/",
    ".deviceclass.resource.k8s.io/",
)


def validate_node(node: Node) -> list[Problem]:
    """Return every problem that the API server reports for a node's resources. It does not check names."""
    problems: list[Problem] = []
    for path, resource_list in list_node_resources(node):
        problems += check_resource_list(path, resource_list)
        for name, quantity in parse_resource_list(drop_unreadable(resource_list)).items():
            problems += check_value(format_entry_path(path, name), name, quantity)
    return problems


def validate_quota(quota: ResourceQuota) -> list[Problem]:
    """Return every problem that the API server reports for a ResourceQuota, its status included."""
    problems: list[Problem] = []
    if quota.spec is not None:
        problems += _check_quota_list("spec.hard", quota.spec.hard)
        problems += check_scopes("spec.scopes", quota.spec)
        problems += check_scope_selector("spec.scopeSelector.matchExpressions", quota.spec)
    if quota.status is not None:
        problems += _check_quota_list("status.hard", quota.status.hard)
        problems += _check_quota_list("status.used", quota.status.used)
    return problems


def check_node_strictly(node: Node) -> list[Problem]:
    """Return the problems of a node that Kubernetes accepts.

    These are names in its status that no container can request, and fractions of whole units.
    """
    problems: list[Problem] = []
    for path, resource_list in list_node_resources(node):
        quantities = parse_resource_list(drop_unreadable(resource_list))
        problems += [
            Problem(
                format_entry_path(path, name),
                kubernetes_codes.NODE_NAME_ACCEPTED,
                problem.reason,
                problem.message,
                "",
                encode_go_json(name),
            )
            for name in quantities
            for problem in find_advertised_name_problems(name)
        ]
        problems += [
            create_fraction_problem(format_entry_path(path, name), kubernetes_codes.FRACTION_ACCEPTED, name, quantity)
            for name, quantity in quantities.items()
            if is_unchecked_integer(name) and not quantity.is_whole
        ]
    return problems


def check_quota_strictly(quota: ResourceQuota) -> list[Problem]:
    """Return the problems of a quota that Kubernetes accepts.

    These are keys that Kubernetes stores and never counts, and fractions of whole units.
    """
    problems: list[Problem] = []
    for name, quantity in parse_resource_list(
        drop_unreadable(quota.spec.hard if quota.spec is not None else None)
    ).items():
        path = f"spec.hard[{name}]"
        resource = name.removeprefix(REQUESTS_PREFIX)
        if (
            not is_integer(name)
            and not quantity.is_whole
            and (is_countable(resource) or is_unchecked_integer(resource))
        ):
            problems.append(create_fraction_problem(path, kubernetes_codes.QUOTA_FRACTION, resource, quantity))
        if "/" in name and not is_counted_key(name) and not _is_counted_for_other_objects(name):
            problems.append(
                create_accepted_problem(
                    path, kubernetes_codes.QUOTA_NEVER_COUNTS, _describe_never_counted(name), encode_go_json(name)
                )
            )
        if name.startswith(_COUNT_PREFIX) and (message := _describe_never_counted_objects(name)):
            problems.append(
                create_accepted_problem(path, kubernetes_codes.QUOTA_NEVER_COUNTS, message, encode_go_json(name))
            )
    return problems


def check_scopes(path: str, spec: ResourceQuotaSpec) -> list[Problem]:
    """Return the first `MAX_SCOPE_PROBLEMS` problems of `spec.scopes`, since scopes and keys multiply."""
    return list(islice(_check_each_scope(path, spec, spec.scopes or []), MAX_SCOPE_PROBLEMS))


def check_scope_selector(path: str, spec: ResourceQuotaSpec) -> list[Problem]:
    """Return the first `MAX_SCOPE_PROBLEMS` problems of the expressions of `spec.scopeSelector`.

    Kubernetes' paths do not contain the index of the expression.
    """
    expressions = (spec.scope_selector and spec.scope_selector.match_expressions) or []
    return list(islice(_check_each_expression(path, spec, expressions), MAX_SCOPE_PROBLEMS))


def list_node_resources(node: Node) -> tuple[tuple[str, ResourceList | None], ...]:
    """Return both lists of a node's status with their paths. Capacity replaces absent allocatable."""
    if node.status is None:
        return ()
    capacity, allocatable = node.status.capacity, node.status.allocatable
    return ("status.capacity", capacity), ("status.allocatable", capacity if allocatable is None else allocatable)


def format_entry_path(path: str, name: str) -> str:
    """Return the path of one resource; Kubernetes puts a dot before it, but writes an empty name as an index."""
    return f"{path}.{name}" if name else f"{path}[]"


def _check_quota_list(path: str, resource_list: ResourceList | None) -> list[Problem]:
    problems = check_resource_list(path, resource_list)
    for name, quantity in parse_resource_list(drop_unreadable(resource_list)).items():
        entry_path = f"{path}[{name}]"
        problems += check_name(entry_path, name, NameContext.QUOTA) + check_value(entry_path, name, quantity)
    return problems


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
    yield from _check_conflicts(
        path, [expression.scope_name or "" for expression in expressions], encode_go_json(spec.scopes)
    )


def _list_standard_keys(spec: ResourceQuotaSpec) -> list[str]:
    """Return the limited keys that scopes are checked against; keys with a domain are ignored."""
    return [key for key in sorted(spec.hard or ()) if is_standard_quota_name(key)]


def _build_internal_selector(expressions: list[ScopeRequirement]) -> Any:
    return {
        "MatchExpressions": [
            {
                "ScopeName": expression.scope_name or "",
                "Operator": expression.operator or "",
                "Values": expression.values,
            }
            for expression in expressions
        ]
    }


def _create_unknown_scope_problem(path: str, scope: str, value: str) -> Problem:
    message = f"there is no scope {scope!r}; use one of {', '.join(_KEYS_BY_SCOPE)}"
    return Problem(path, kubernetes_codes.SCOPE_UNKNOWN, Reason.INVALID, message, "unsupported scope", value)


def _check_suitable_keys(path: str, scope: str, keys: list[str], value: str) -> Iterator[Problem]:
    """Yield one problem for each limited key that the scope cannot select."""
    suitable_keys = _KEYS_BY_SCOPE.get(scope, keys)
    for key in keys:
        if key not in suitable_keys:
            message, detail = _describe_unsuitable(scope, key), "unsupported scope applied to resource"
            yield Problem(path, kubernetes_codes.SCOPE_UNSUITABLE, Reason.INVALID, message, detail, value)


def _describe_unsuitable(scope: str, key: str) -> str:
    return (
        f"scope {scope} cannot apply to {key}; it goes with {', '.join(sorted(_KEYS_BY_SCOPE[scope]))}: use a "
        "quota of its own"
    )


def _check_conflicts(path: str, scopes: Collection[str], value: str) -> list[Problem]:
    scope_set, code, detail = set(scopes), kubernetes_codes.SCOPES_CONFLICT, "conflicting scopes"
    return [
        Problem(path, code, Reason.INVALID, _describe_conflict(pair), detail, value)
        for pair in _OPPOSITE_SCOPES
        if pair <= scope_set
    ]


def _describe_conflict(pair: Collection[str]) -> str:
    first, second = sorted(pair)
    return f"no pod is both {first} and {second}; leave one of them"


def _check_operator(path: str, expression: ScopeRequirement) -> list[Problem]:
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
    return Problem(path, kubernetes_codes.SCOPE_OPERATOR, reason, message, detail, value)


def _is_counted_for_other_objects(name: str) -> bool:
    """Return whether a key counts objects other than pods: any object, storage classes, device classes."""
    return name.startswith("count/") or any(infix in name for infix in _OTHER_QUOTA_INFIXES)


def _describe_never_counted(name: str) -> str:
    resource = name.removeprefix(LIMITS_PREFIX).removeprefix(REQUESTS_PREFIX)
    counted_name = f"{REQUESTS_PREFIX}{resource}"
    if is_counted_key(counted_name):
        return f"Kubernetes counts {resource} as {counted_name} only, so this limits nothing; write {counted_name}"
    return f"Kubernetes never counts {resource}, so this limits nothing; use a cap"


def _describe_never_counted_objects(name: str) -> str:
    """Return the message of a key that counts no objects; empty if some may exist.

    A key is `count/RESOURCE.GROUP` with the plural of the resource, without a group only in the core group
    (ObjectCountQuotaResourceNameFor in pkg/quota/v1/generic/evaluator.go). The group of a CustomResourceDefinition has
    a dot (ValidateCustomResourceDefinition), so one without a dot is a group of Kubernetes or none.
    """
    resource, _, group = name.removeprefix(_COUNT_PREFIX).partition(".")
    known = _RESOURCES_BY_GROUP.get(group, "").split()
    if resource in known or ("." in group and f"{resource}s" not in known):
        return ""
    others = [
        other for other, resources in _RESOURCES_BY_GROUP.items() if {resource, f"{resource}s"} & {*resources.split()}
    ]
    start = "so this limits nothing"
    if not others:
        if group:
            return f"Kubernetes has no group {group} with {resource}, {start}; write {_COUNT_PREFIX}RESOURCE.GROUP"
        return f"{resource} is not in the core group, {start}; write {_COUNT_PREFIX}{resource}.GROUP, with its group"
    found = group if group in others else others[0]
    plural = resource if resource in _RESOURCES_BY_GROUP[found].split() else f"{resource}s"
    key = f"{_COUNT_PREFIX}{plural}{f'.{found}' if found else ''}"
    return f"Kubernetes counts {plural} as {key}, {start}; write {key}"
