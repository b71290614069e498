"""ResourceQuotas: keys, values and scopes.

Source: ValidateResourceQuota and what it calls in pkg/apis/core/validation/validation.go, v1.36.
"""

from webhook.accounting.asks import read_list
from webhook.accounting.name_rules import Place
from webhook.accounting.problem import Problem
from webhook.accounting.validation.scopes import scope_problems, selector_problems
from webhook.accounting.validation.unreadable import list_problems, readable
from webhook.accounting.validation.values import name_problems, value_problems
from webhook.objects.cluster import ResourceQuota
from webhook.objects.pods import ResourceList


def validate_quota(quota: ResourceQuota) -> list[Problem]:
    """Everything the API server says of a ResourceQuota, its status included."""
    problems: list[Problem] = []
    if quota.spec is not None:
        problems += _list_problems("spec.hard", quota.spec.hard)
        problems += scope_problems("spec.scopes", quota.spec)
        problems += selector_problems("spec.scopeSelector.matchExpressions", quota.spec)
    if quota.status is not None:
        problems += _list_problems("status.hard", quota.status.hard)
        problems += _list_problems("status.used", quota.status.used)
    return problems


def _list_problems(path: str, listed: ResourceList | None) -> list[Problem]:
    problems = list_problems(path, listed)
    for name, quantity in read_list(readable(listed)).items():
        at = f"{path}[{name}]"
        problems += name_problems(at, name, Place.QUOTA) + value_problems(at, name, quantity)
    return problems
