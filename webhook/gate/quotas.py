"""What ResourceQuota will say to the pods of a workload, said when the workload is applied (kubernetes#96634).

Nothing is refused for it: ResourceQuota itself refuses the pods. What admission may yet add to a pod is not known here,
a LimitRange's defaults or a priority class; so where a scope hangs on that, nothing is said, and a sum may be too low.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from webhook.accounting.amounts import Amounts, round_down_to_unit, round_up_to_unit
from webhook.accounting.quantity import Quantity
from webhook.accounting.quantity_parser import QuantityError
from webhook.accounting.resource_quota import compute_quota_charge, is_in_scope
from webhook.admission.codes import WORKLOAD_OVER_QUOTA
from webhook.gate.room import Forecast, ForecastLimit, ForecastWorkload, forecast_resources, multiply
from webhook.objects.core import Pod, PodSpec, ResourceList, ResourceQuota, ResourceQuotaSpec, ResourceQuotaStatus

_NO_AMOUNTS = Amounts()
_UNKNOWN_SCOPES = {"BestEffort", "CrossNamespacePodAffinity"}
_CODES = WORKLOAD_OVER_QUOTA, WORKLOAD_OVER_QUOTA, WORKLOAD_OVER_QUOTA


class QuotaLister(Protocol):
    """Knows the ResourceQuotas of namespaces."""

    def list_quotas(self, namespace: str) -> Sequence[ResourceQuota] | None:
        """Those of a namespace, with what is used; None while that is not known to be so now."""
        ...


def forecast_quotas(
    workload: ForecastWorkload, old_workload: ForecastWorkload | None, quotas: Sequence[ResourceQuota]
) -> Iterator[Forecast]:
    """What will become of a workload's pods under each quota of its namespace; `stored` is the workload as it was."""
    for quota in sorted(quotas, key=_get_name):
        try:
            yield from _forecast_quota(workload, old_workload, quota)
        except QuantityError:
            continue  # no API server stores it; the next quota may be whole


def _forecast_quota(
    workload: ForecastWorkload, old_workload: ForecastWorkload | None, quota: ResourceQuota
) -> Iterator[Forecast]:
    spec, status = quota.spec or ResourceQuotaSpec(), quota.status or ResourceQuotaStatus()
    hard, used = _read_amounts(spec.hard, round_down_to_unit), _read_amounts(status.used, round_up_to_unit)
    computed_names = used.keys() & (status.hard or {}).keys()  # of others what is used is not known yet
    known_hard = Amounts({name: value for name, value in hard.items() if name in computed_names})
    limit = ForecastLimit(f"quota {_get_name(quota)} of this namespace", known_hard, *_CODES)
    before = (
        multiply(_compute_charge(old_workload.template, spec), old_workload.replicas.count)
        if old_workload
        else _NO_AMOUNTS
    )
    yield from forecast_resources(workload, limit, _compute_charge(workload.template, spec), before, lambda: used)


def _compute_charge(template: Pod, spec: ResourceQuotaSpec) -> Amounts:
    """What one of the pods will surely add to a quota."""
    if not _is_surely_selected(spec, template.spec or PodSpec()):
        return _NO_AMOUNTS
    charge = compute_quota_charge(template, None)
    return Amounts({name: cost for name, each in charge.items() if (cost := round_up_to_unit(name, each)) > 0})


def _is_surely_selected(spec: ResourceQuotaSpec, pod: PodSpec) -> bool:
    expressions = (spec.scope_selector.match_expressions if spec.scope_selector else None) or ()
    scopes = {*(spec.scopes or ()), *(each.scope_name for each in expressions)}
    if scopes & _UNKNOWN_SCOPES or ("PriorityClass" in scopes and not pod.priority_class_name):
        return False
    return is_in_scope(spec, pod) is True


def _read_amounts(quantities: ResourceList | None, read: Callable[[str, Quantity], int]) -> Amounts:
    return Amounts({name: read(name, Quantity.from_json(raw)) for name, raw in (quantities or {}).items()})


def _get_name(quota: ResourceQuota) -> str:
    return (quota.metadata.name if quota.metadata else None) or ""
