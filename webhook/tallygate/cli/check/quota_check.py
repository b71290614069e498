"""The evaluation of pods by the ResourceQuotas of their namespace, on top of the earlier manifests.

ResourceQuota itself rejects a pod above a quota; the pods of a workload are rejected when its controller creates them.
A quota whose used amounts are not computed yet has no forecast.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace

import msgspec

from tallygate.accounting.amounts import NO_AMOUNTS, Amounts, format_amount, is_milli
from tallygate.accounting.problem import Problem, Reason
from tallygate.accounting.quantity_parser import QuantityError
from tallygate.admission.rule_codes import WORKLOAD_OVER_QUOTA
from tallygate.cluster.cluster_state import ClusterState
from tallygate.objects.core import ResourceQuota, ResourceQuotaStatus
from tallygate.review.applied_workload import ForecastWorkload, multiply, sum_pod_sets
from tallygate.review.quota_forecast import QuotaForecaster, read_limits


class QuotaChecker:
    """The quotas of a state, with the amounts of the pods that were charged here."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._added: dict[tuple[str, str], Amounts] = {}
        self._forecaster = QuotaForecaster(self, state.device_classes.get_resources_by_class, lambda _: True)

    def list_quotas(self, namespace: str) -> Sequence[ResourceQuota]:
        """Return the quotas of a namespace, whose used amounts have what was charged here."""
        return [self._add_charged(namespace, quota) for quota in self._state.quotas.list_quotas(namespace)]

    def forecast(self, namespace: str, workload: ForecastWorkload, existing: Sequence[int]) -> Iterator[Problem]:
        """Yield the forecasts for the pods of a workload, of which some exist and are counted, by template."""
        quotas = self.list_quotas(namespace)
        if quotas:
            stored = select_pods(workload, existing) if any(existing) else None
            yield from self._forecaster.forecast_workload(workload, stored, quotas)

    def check_pod(self, namespace: str, workload: ForecastWorkload) -> Iterator[Problem]:
        """Yield a problem for each quota that rejects a pod, which does not exist yet, in the words of Kubernetes.

        Source: CheckRequest in plugin/pkg/admission/resourcequota/controller.go, v1.37.
        """
        for quota in self.list_quotas(namespace):
            excess = self._find_excess(workload, [0], quota)
            if not excess:
                continue
            hard, used = read_limits(quota)
            requested = self._sum_charge(workload, quota)
            texts = [
                ",".join(f"{name}={format_amount(name, amounts.get(name, 0))}" for name in sorted(excess))
                for amounts in (requested, used, hard)
            ]
            name = quota.metadata.name if quota.metadata else ""
            message = f"exceeded quota: {name}, requested: {texts[0]}, used: {texts[1]}, limited: {texts[2]}"
            yield Problem("", WORKLOAD_OVER_QUOTA, Reason.FORBIDDEN, message, policy_kind="cap")

    def admits(self, namespace: str, workload: ForecastWorkload, existing: Sequence[int]) -> bool:
        """Return whether all quotas have room for the pods of a workload that do not exist yet."""
        return not any(self._find_excess(workload, existing, quota) for quota in self.list_quotas(namespace))

    def charge(self, namespace: str, workload: ForecastWorkload, existing: Sequence[int]) -> None:
        """Count the pods of a workload that do not exist yet, for the objects that follow."""
        for quota in self._state.quotas.list_quotas(namespace):
            key = namespace, (quota.metadata.name if quota.metadata else "") or ""
            self._added[key] = self._added.get(key, NO_AMOUNTS) + self._sum_new(workload, existing, quota)

    def _find_excess(self, workload: ForecastWorkload, existing: Sequence[int], quota: ResourceQuota) -> Amounts:
        """Return by how much the new pods exceed a quota; nothing for one that no API server stores."""
        try:
            hard, used = read_limits(quota)
            increase = self._sum_new(workload, existing, quota)
        except QuantityError:
            return NO_AMOUNTS
        charged = Amounts({name: used.get(name, 0) + amount for name, amount in increase.items() if name in hard})
        return charged.find_excess(hard)

    def _sum_charge(self, workload: ForecastWorkload, quota: ResourceQuota) -> Amounts:
        charged = self._forecaster.charge_pods(workload, quota)
        return sum_pod_sets((pods.pods.replicas, pods.per_pod) for pods in charged)

    def _sum_new(self, workload: ForecastWorkload, existing: Sequence[int], quota: ResourceQuota) -> Amounts:
        charged = list(self._forecaster.charge_pods(workload, quota))
        before = sum((multiply(pods.per_pod, count) for pods, count in zip(charged, existing, strict=True)), NO_AMOUNTS)
        return sum_pod_sets((pods.pods.replicas, pods.per_pod) for pods in charged).find_shortfall(before)

    def _add_charged(self, namespace: str, quota: ResourceQuota) -> ResourceQuota:
        added = self._added.get((namespace, (quota.metadata.name if quota.metadata else "") or ""))
        if not added or quota.status is None:
            return quota
        _, used = read_limits(quota)
        total = {name: _encode_amount(name, used.get(name, 0) + added.get(name, 0)) for name in used}
        return msgspec.structs.replace(quota, status=ResourceQuotaStatus(quota.status.hard, total))


def _encode_amount(name: str, amount: int) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(f"{amount}m" if is_milli(name) else f"{amount}").encode())


def select_pods(workload: ForecastWorkload, counts: Sequence[int]) -> ForecastWorkload:
    """Return a workload with these numbers of pods by template."""
    pod_sets = tuple(
        replace(pods, replicas=replace(pods.replicas, count=count))
        for pods, count in zip(workload.pod_sets, counts, strict=True)
    )
    return replace(workload, pod_sets=pod_sets)
