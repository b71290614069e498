"""Forecasts of the ResourceQuotas of a namespace: for the pods of a workload, and for the claims of a pod.

A forecast under a ResourceQuota never denies: ResourceQuota itself rejects pods and claims. It rejects a pod at once,
but the claims that controllers make for the pod only after it is stored: those of templates, and the one that
kube-scheduler makes for extended resources of device classes. Only an event or the condition of the pod reports that.

The pods have the defaults of LimitRanges and of the default priority class. Where these are not known, and a scope
depends on them, there is no forecast; and a sum may be too low. A quota with scopes counts no claims.

A quota on cpu or memory also requires it of each container: a pod that lacks it is rejected, whatever is free.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import msgspec

from tallygate.accounting import resource_quota
from tallygate.accounting.amounts import NO_AMOUNTS, Amounts, format_amount, round_down_to_unit, round_up_to_unit
from tallygate.accounting.devices.least_amounts import LeastAmountsReview
from tallygate.accounting.pod_defaults import NO_POD_DEFAULTS, PodDefaults
from tallygate.accounting.problem import Problem, Reason
from tallygate.accounting.quantity import Quantity
from tallygate.accounting.quantity_parser import QuantityError
from tallygate.admission.rule_codes import CLAIMS_OVER_QUOTA, WORKLOAD_OVER_QUOTA
from tallygate.objects import core
from tallygate.policy.model import COMPILED_FROM_LABEL
from tallygate.review import claim_forecast
from tallygate.review.applied_workload import ForecastPods, ForecastWorkload, multiply, sum_pod_sets
from tallygate.review.cap_messages import CLAIMS_WAIT
from tallygate.review.workload_forecast import ChargedPods, ForecastLimit, forecast_resources

_CODES = (WORKLOAD_OVER_QUOTA,) * 4


class QuotaLister(Protocol):
    """A source of the ResourceQuotas of namespaces."""

    def list_quotas(self, namespace: str) -> Sequence[core.ResourceQuota] | None:
        """Return the quotas of a namespace, with their used amounts; None if the current state is unknown."""
        ...


class ExpectedClaims(msgspec.Struct, frozen=True):
    """A new pod, the claims that templates make for it, and the quotas that count the claims of the pod.

    `limits` is the noun for the limits that count them: caps, quotas, or both.
    """

    pod: core.Pod = core.Pod()
    claims: claim_forecast.PodClaims = claim_forecast.NO_CLAIMS
    quotas: Sequence[core.ResourceQuota] = ()
    limits: str = ""

    def with_review(self, review: LeastAmountsReview | None) -> "ExpectedClaims":
        """Return the same with the least that the claims can get under caps by allocated devices."""
        return ExpectedClaims(self.pod, self.claims.with_review(review), self.quotas, self.limits)


NO_EXPECTED_CLAIMS = ExpectedClaims()


class QuotaForecaster(msgspec.Struct, frozen=True):
    """The forecasts of ResourceQuotas.

    `get_resources_by_class` returns the extended resource of each DeviceClass, empty if it has none. `is_advertised`
    returns whether any node may advertise a resource.
    """

    quotas: QuotaLister
    get_resources_by_class: Callable[[], Mapping[str, str]]
    is_advertised: Callable[[str], bool]

    def list_quotas(self, namespace: str) -> Sequence[core.ResourceQuota]:
        """Return the quotas of a namespace without those that are compiled from caps; none if they are unknown.

        The cap itself decides what its quota would, and rejects no less.
        """
        return [quota for quota in self.quotas.list_quotas(namespace) or () if not is_compiled(quota)]

    def list_quotas_of_claims(self, pod: core.Pod, namespace: str) -> Sequence[core.ResourceQuota]:
        """Return the quotas that count the claims which controllers make for a pod, if a user creates it."""
        if claim_forecast.is_controlled(pod.metadata):
            return ()
        return [quota for quota in self.list_quotas(namespace) if self._counts_claims(quota)]

    def counts_claims(self, quotas: Iterable[core.ResourceQuota]) -> bool:
        """Return whether one of the quotas counts claims."""
        return any(map(self._counts_claims, quotas))

    def selects_by_affinity(self, quotas: Iterable[core.ResourceQuota]) -> bool:
        """Return whether one of the quotas selects pods by their affinity to pods in other namespaces."""
        return any(
            resource_quota.CROSS_NAMESPACE_SCOPE in _list_scopes(quota.spec or core.ResourceQuotaSpec())
            for quota in quotas
        )

    def forecast_workload(
        self, workload: ForecastWorkload, old_workload: ForecastWorkload | None, quotas: Sequence[core.ResourceQuota]
    ) -> Iterator[Problem]:
        """Yield the forecasts for a workload's pods and their claims under each quota of its namespace.

        `old_workload` is the stored workload.
        """
        for quota in sorted(quotas, key=_get_name):
            try:
                yield from self._forecast_quota(workload, old_workload, quota)
            except QuantityError:
                continue  # no API server stores such a quota; the next one may be valid

    def forecast_pod(self, expected: ExpectedClaims) -> Iterator[Problem]:
        """Yield a problem for each key of a quota that the claims of a pod exceed, besides the pod itself."""
        for quota in sorted(expected.quotas, key=_get_name):
            try:
                yield from self._forecast_claims(expected.pod, expected.claims, quota)
            except QuantityError:
                continue  # no API server stores such a quota; the next one may be valid

    def reject_pod(self, workload: ForecastWorkload, quotas: Iterable[core.ResourceQuota]) -> Iterator[Problem]:
        """Yield a problem for each quota that rejects a new pod, in the words of Kubernetes.

        Source: CheckRequest in plugin/pkg/admission/resourcequota/controller.go, v1.37.
        """
        for quota in quotas:
            excess = self.find_excess(workload, [0], quota)
            if not excess:
                continue
            hard, used = read_limits(quota)
            requested, used_text, limited = (
                ",".join(f"{name}={format_amount(name, amounts.get(name, 0))}" for name in sorted(excess))
                for amounts in (self.compute_increase(workload, [0], quota), used, hard)
            )
            message = (
                f"exceeded quota: {_get_name(quota)}, requested: {requested}, used: {used_text}, limited: {limited}"
            )
            yield Problem("", WORKLOAD_OVER_QUOTA, Reason.FORBIDDEN, message, policy_kind="cap")

    def find_excess(self, workload: ForecastWorkload, counted: Sequence[int], quota: core.ResourceQuota) -> Amounts:
        """Return by how much pods exceed a quota that counts some of each template; nothing for one never stored."""
        try:
            hard, used = read_limits(quota)
            increase = self.compute_increase(workload, counted, quota)
        except QuantityError:
            return NO_AMOUNTS
        charged = Amounts({name: used.get(name, 0) + amount for name, amount in increase.items() if name in hard})
        return charged.find_excess(hard)

    def compute_increase(
        self, workload: ForecastWorkload, counted: Sequence[int], quota: core.ResourceQuota
    ) -> Amounts:
        """Return what pods add to a quota that counts some of each template."""
        charged = list(self.charge_pods(workload, quota))
        before = sum((multiply(pods.per_pod, count) for pods, count in zip(charged, counted, strict=True)), NO_AMOUNTS)
        increase = sum_pod_sets((pods.pods.replicas, pods.per_pod) for pods in charged).find_shortfall(before)
        return sum((pods.shared for pods, count in zip(charged, counted, strict=True) if not count), increase)

    def _counts_claims(self, quota: core.ResourceQuota) -> bool:
        spec = quota.spec or core.ResourceQuotaSpec()
        resources_by_class = self.get_resources_by_class()
        return not _list_scopes(spec) and any(
            resource_quota.is_claim_key(key, resources_by_class) for key in spec.hard or ()
        )

    def _forecast_quota(
        self, workload: ForecastWorkload, old_workload: ForecastWorkload | None, quota: core.ResourceQuota
    ) -> Iterator[Problem]:
        hard, used = read_limits(quota)
        limit = ForecastLimit(_describe_quota(quota), hard, *_CODES)
        charged_pods: list[ChargedPods] = []
        for charged in self.charge_pods(workload, quota):
            pods = charged.pods
            missing = _find_missing(pods, pods.template, quota, hard, workload.defaults)
            before = _find_missing(pods, pods.old_template, quota, hard, workload.defaults) if missing else {}
            for key, containers in missing.items():
                if containers != before.get(key):
                    yield _create_missing_problem(quota, key, pods, containers)
            if not missing:
                charged_pods.append(charged)
        old_pods = tuple(self.charge_pods(old_workload, quota)) if old_workload is not None else ()
        shared = sum((pod.shared for pod in old_pods), NO_AMOUNTS)
        counted = sum_pod_sets((pod.pods.replicas, pod.per_pod) for pod in old_pods) + shared
        for forecast in forecast_resources(charged_pods, limit, counted, lambda: used):
            yield forecast.problem

    def charge_pods(self, workload: ForecastWorkload, quota: core.ResourceQuota) -> Iterator[ChargedPods]:
        """Yield the pods of each template with what one of them, and the claims that they share, surely add."""
        for pods in workload.pod_sets:
            claimed = self._charge_claims(pods.template, pods.claims, quota)
            own = _charge_pod(pods.template, quota, workload.defaults, is_across=pods.reaches_namespaces)
            shared = self._charge_claims(core.Pod(), pods.shared, quota)
            yield ChargedPods(pods, own + claimed, claimed, shared=shared)

    def _forecast_claims(
        self, pod: core.Pod, claims: claim_forecast.PodClaims, quota: core.ResourceQuota
    ) -> Iterator[Problem]:
        hard, used = read_limits(quota)
        own = _charge_pod(pod, quota, NO_POD_DEFAULTS, is_across=None)  # it has the defaults; and there are no scopes
        for name, claimed in sorted(self._charge_claims(pod, claims, quota).items()):
            if name not in hard:
                continue
            limit = f"{_describe_quota(quota)} has hard {format_amount(name, hard[name])}"
            if own.get(name, 0) + claimed > hard[name]:
                request = claim_forecast.describe_claims_request(name, own.get(name, 0), claimed)
                yield _create_claims_problem(f"{request}, {limit}: the pod can never run")
            elif claimed > (free := max(hard[name] - used.get(name, 0) - own.get(name, 0), 0)):
                request = claim_forecast.describe_claims_request(name, 0, claimed)
                yield _create_claims_problem(
                    f"{request}, {limit}, free {format_amount(name, free)}: the pod stays pending until {CLAIMS_WAIT}"
                )

    def _charge_claims(self, pod: core.Pod, claims: claim_forecast.PodClaims, quota: core.ResourceQuota) -> Amounts:
        """Return the amounts that the claims of one pod surely add to a quota."""
        if not self._counts_claims(quota):
            return NO_AMOUNTS
        resources_by_class = self.get_resources_by_class()
        charge = resource_quota.compute_scheduler_claim_charge(pod, resources_by_class, self.is_advertised)
        return sum(
            (resource_quota.compute_claim_quota_charge(claim, resources_by_class) for claim in claims.claims), charge
        )


def find_expected_claims(
    pod: core.Pod,
    namespace: str,
    forecaster: QuotaForecaster | None,
    templates: claim_forecast.ClaimTemplateLister | None,
    *,
    has_caps: bool,
) -> ExpectedClaims:
    """Return the claims for a new pod, if caps that count devices (`has_caps`) or a quota count them."""
    quotas = forecaster.list_quotas_of_claims(pod, namespace) if forecaster is not None else ()
    has_caps = has_caps and bool(pod.spec and pod.spec.resource_claims)
    if not quotas and not has_caps:
        return NO_EXPECTED_CLAIMS
    claims = (
        claim_forecast.find_pod_claims(pod, namespace, templates) if templates is not None else claim_forecast.NO_CLAIMS
    )
    return ExpectedClaims(pod, claims, quotas, name_limits(has_caps=has_caps, has_quotas=bool(quotas)))


def name_limits(*, has_caps: bool, has_quotas: bool) -> str:
    """Return the noun for the limits that count claims; empty without any."""
    return " and ".join(["caps"] * has_caps + ["quotas"] * has_quotas)


def read_limits(quota: core.ResourceQuota) -> tuple[Amounts, Amounts]:
    """Return the hard amounts of a quota whose used amounts are computed already, and all used amounts."""
    spec, status = quota.spec or core.ResourceQuotaSpec(), quota.status or core.ResourceQuotaStatus()
    hard, used = _read_amounts(spec.hard, round_down_to_unit), _read_amounts(status.used, round_up_to_unit)
    computed_names = used.keys() & (status.hard or {}).keys()  # the used amount of any other name is unknown yet
    return Amounts({name: value for name, value in hard.items() if name in computed_names}), used


def _charge_pod(pod: core.Pod, quota: core.ResourceQuota, defaults: PodDefaults, *, is_across: bool | None) -> Amounts:
    """Return the amounts that a pod with its defaults surely adds to a quota, without its claims."""
    if not _is_surely_selected(
        quota.spec or core.ResourceQuotaSpec(), pod.spec or core.PodSpec(), defaults, is_across=is_across
    ):
        return NO_AMOUNTS
    charge = resource_quota.compute_quota_charge(pod, None, defaults.version)
    return Amounts({name: cost for name, quantity in charge.items() if (cost := round_up_to_unit(name, quantity)) > 0})


def _find_missing(
    pods: ForecastPods, template: core.Pod | None, quota: core.ResourceQuota, hard: Amounts, defaults: PodDefaults
) -> Mapping[str, tuple[str, ...]]:
    """Return the keys of a quota that rejects the pods of a template, with the containers that set no such amount."""
    spec = template.spec if template is not None else None
    if spec is None or not pods.replicas.count or pods.view.is_partial or not defaults.has_limit_ranges:
        return {}
    quota_spec = quota.spec or core.ResourceQuotaSpec()
    if not _is_surely_selected(quota_spec, spec, defaults, is_across=pods.reaches_namespaces):
        return {}
    return {key: containers for key in sorted(hard) if (containers := resource_quota.list_missing_amounts(key, spec))}


def _is_surely_selected(
    spec: core.ResourceQuotaSpec, pod: core.PodSpec, defaults: PodDefaults, *, is_across: bool | None
) -> bool:
    """Return whether the scopes select a pod, also with defaults that are not known."""
    scopes = _list_scopes(spec)
    if "BestEffort" in scopes and not defaults.has_limit_ranges:
        return False
    if "PriorityClass" in scopes and not pod.priority_class_name and not defaults.has_priority_classes:
        return False
    return resource_quota.is_in_scope(spec, pod, is_across=is_across) is True


def is_compiled(quota: core.ResourceQuota) -> bool:
    """Return whether a quota is compiled from a cap, which decides the same while the gate answers."""
    return COMPILED_FROM_LABEL in ((quota.metadata.labels if quota.metadata else None) or {})


def _list_scopes(spec: core.ResourceQuotaSpec) -> frozenset[str | None]:
    expressions = (spec.scope_selector.match_expressions if spec.scope_selector else None) or ()
    return frozenset([*(spec.scopes or ()), *(expression.scope_name for expression in expressions)])


def _read_amounts(quantities: core.ResourceList | None, read: Callable[[str, Quantity], int]) -> Amounts:
    return Amounts({name: read(name, Quantity.from_json(raw)) for name, raw in (quantities or {}).items()})


def _describe_quota(quota: core.ResourceQuota) -> str:
    return f"quota {_get_name(quota)} of this namespace"


def _get_name(quota: core.ResourceQuota) -> str:
    return (quota.metadata.name if quota.metadata else None) or ""


def _create_missing_problem(
    quota: core.ResourceQuota, key: str, pods: ForecastPods, containers: Iterable[str]
) -> Problem:
    text = (
        f"{_describe_quota(quota)} counts {key}, which is missing on {', '.join(containers)}: no pod is accepted until "
        "each container sets it"
    )
    return Problem(pods.view.locate("spec.containers"), WORKLOAD_OVER_QUOTA, Reason.FORBIDDEN, text, policy_kind="cap")


def _create_claims_problem(text: str) -> Problem:
    return Problem("", CLAIMS_OVER_QUOTA, Reason.FORBIDDEN, text, policy_kind="cap")
