"""ResourceQuotas: keys, values and scopes.

Source: ValidateResourceQuota and what it calls in pkg/apis/core/validation/validation.go, v1.36.
"""

from webhook.accounting.asks import parse_resource_list
from webhook.accounting.name_rules import NameContext
from webhook.accounting.problem import Problem
from webhook.accounting.validation.scopes import check_scope_selector, check_scopes
from webhook.accounting.validation.unreadable import check_resource_list, drop_unreadable
from webhook.accounting.validation.values import check_name, check_value
from webhook.objects.cluster import ResourceQuota
from webhook.objects.pods import ResourceList


def validate_quota(quota: ResourceQuota) -> list[Problem]:
    """Everything the API server says of a ResourceQuota, its status included."""
    problems: list[Problem] = []
    if quota.spec is not None:
        problems += _check_quota_list("spec.hard", quota.spec.hard)
        problems += check_scopes("spec.scopes", quota.spec)
        problems += check_scope_selector("spec.scopeSelector.matchExpressions", quota.spec)
    if quota.status is not None:
        problems += _check_quota_list("status.hard", quota.status.hard)
        problems += _check_quota_list("status.used", quota.status.used)
    return problems


def _check_quota_list(path: str, resource_list: ResourceList | None) -> list[Problem]:
    problems = check_resource_list(path, resource_list)
    for name, quantity in parse_resource_list(drop_unreadable(resource_list)).items():
        entry_path = f"{path}[{name}]"
        problems += check_name(entry_path, name, NameContext.QUOTA) + check_value(entry_path, name, quantity)
    return problems
