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
from webhook.gate.room import Bound, Foreseen, Workload, foretold, times
from webhook.objects.core import Pod, PodSpec, ResourceList, ResourceQuota, ResourceQuotaSpec, ResourceQuotaStatus

_NOTHING = Amounts()
_HANG_ON_MORE = {"BestEffort", "CrossNamespacePodAffinity"}
_CODES = WORKLOAD_OVER_QUOTA, WORKLOAD_OVER_QUOTA, WORKLOAD_OVER_QUOTA


class Quotas(Protocol):
    """Knows the ResourceQuotas of namespaces."""

    def within(self, namespace: str) -> Sequence[ResourceQuota] | None:
        """Those of a namespace, with what is used; None while that is not known to be so now."""
        ...


def over_quotas(asked: Workload, stored: Workload | None, quotas: Sequence[ResourceQuota]) -> Iterator[Foreseen]:
    """What will become of a workload's pods under each quota of its namespace; `stored` is the workload as it was."""
    for quota in sorted(quotas, key=_name):
        try:
            yield from _over(asked, stored, quota)
        except QuantityError:
            continue  # no API server stores it; the next quota may be whole


def _over(asked: Workload, stored: Workload | None, quota: ResourceQuota) -> Iterator[Foreseen]:
    spec, status = quota.spec or ResourceQuotaSpec(), quota.status or ResourceQuotaStatus()
    hard, used = _amounts(spec.hard, round_down_to_unit), _amounts(status.used, round_up_to_unit)
    computed = used.keys() & (status.hard or {}).keys()  # of others what is used is not known yet
    known = Amounts({name: most for name, most in hard.items() if name in computed})
    allows = Bound(f"quota {_name(quota)} of this namespace", known, *_CODES)
    before = times(_costs(stored.template, spec), stored.pods.count) if stored else _NOTHING
    yield from foretold(asked, allows, _costs(asked.template, spec), before, lambda: used)


def _costs(template: Pod, spec: ResourceQuotaSpec) -> Amounts:
    """What one of the pods will surely add to a quota."""
    if not _surely_selects(spec, template.spec or PodSpec()):
        return _NOTHING
    charge = compute_quota_charge(template, None)
    return Amounts({name: cost for name, each in charge.items() if (cost := round_up_to_unit(name, each)) > 0})


def _surely_selects(spec: ResourceQuotaSpec, pod: PodSpec) -> bool:
    expressions = (spec.scope_selector.match_expressions if spec.scope_selector else None) or ()
    scopes = {*(spec.scopes or ()), *(each.scope_name for each in expressions)}
    if scopes & _HANG_ON_MORE or ("PriorityClass" in scopes and not pod.priority_class_name):
        return False
    return is_in_scope(spec, pod) is True


def _amounts(listed: ResourceList | None, read: Callable[[str, Quantity], int]) -> Amounts:
    return Amounts({name: read(name, Quantity.from_json(raw)) for name, raw in (listed or {}).items()})


def _name(quota: ResourceQuota) -> str:
    return (quota.metadata.name if quota.metadata else None) or ""
