"""Whether a workload's pods have room under one bound, a cap's or a ResourceQuota's, and how that is said.

What ResourceQuota will say to the pods of a workload, said when the workload is applied (kubernetes#96634).

Nothing is refused for it: ResourceQuota itself refuses the pods. What admission may yet add to a pod is not known here,
a LimitRange's defaults or a priority class; so where a scope hangs on that, nothing is said, and a sum may be too low.

What the caps will say to the pods of a workload, said when the workload is applied.

Kubernetes says it to the controller only, in an event on a ReplicaSet (kubernetes#96634). What is said here is a
forecast: nothing is promised, and every pod is still judged when it comes.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import msgspec

from webhook.accounting.amounts import Amounts, format_amount, round_down_to_unit, round_up_to_unit
from webhook.accounting.charge import Charge
from webhook.accounting.problem import Code, Problem, Reason
from webhook.accounting.quantity import Quantity
from webhook.accounting.quantity_parser import QuantityError
from webhook.accounting.resource_quota import compute_quota_charge, is_in_scope
from webhook.admission.cap_index import ActiveCap
from webhook.admission.kinds import (
    KIND_NAMES,
    DecodedObject,
    PodView,
    ReplicaCount,
    ReviewTarget,
    count_replicas,
    decode_object,
)
from webhook.admission.request import AdmissionRequest
from webhook.admission.rule_codes import WORKLOAD_OVER_CAP, WORKLOAD_OVER_FREE, WORKLOAD_OVER_QUOTA, WORKLOAD_ROLLOUT
from webhook.gate.messages import create_missing_limit_problem
from webhook.objects.core import Pod, PodSpec, ResourceList, ResourceQuota, ResourceQuotaSpec, ResourceQuotaStatus
from webhook.state.ledger.ledger import Ledger


@dataclass(frozen=True, slots=True)
class ForecastWorkload:
    """The pods of a workload, one of them, and where its template stands.

    `stored` is the template that it replaces, None when the workload is new; `rolls` when that is another.
    """

    replicas: ReplicaCount
    template: Pod
    path: str
    old_template: Pod | None = None
    is_rollout: bool = False

    def sum_charges(self, compute_charge: Callable[[Pod], Charge]) -> Amounts:
        """What its pods cost together, when `hold` says what one does."""
        return multiply(compute_charge(self.template).amounts, self.replicas.count)


@dataclass(frozen=True, slots=True)
class Forecast:
    """One thing that will happen; `final` when it will for as long as workload and cap are what they are."""

    problem: Problem
    permanent: bool


@dataclass(frozen=True, slots=True)
class ForecastLimit:
    """What bounds the pods: how it is called, what it allows, the codes of what it says, and the cap, if it is one."""

    label: str
    hard: Amounts
    over_code: Code
    wait_code: Code
    rollout_code: Code
    cap: str = ""


ChargedReader = Callable[[], Amounts | None]
"""What counts against the bound now, all pods together; None where that is not known."""


def forecast_resources(
    workload: ForecastWorkload, limit: ForecastLimit, per_pod: Amounts, before: Amounts, read_charged: ChargedReader
) -> Iterator[Forecast]:
    """What will become of the pods: of which each costs so much, and so much is counted already."""
    requested = multiply(per_pod, workload.replicas.count)
    increase = requested.find_shortfall(before)
    for name in sorted(per_pod.keys() & limit.hard.keys()):
        forecast = _ResourceForecast(workload, limit, name, per_pod[name])
        if requested.get(name, 0) > limit.hard[name]:
            if name in increase:
                yield forecast.forecast_never()
        elif (rollout := forecast.forecast_rollout()) is not None:
            yield rollout
        elif (name in increase or forecast.has_surge) and (charged := read_charged()) is not None:
            yield from forecast.forecast_wait(charged.get(name, 0), increase.get(name, 0))


def multiply(amounts: Amounts, count: int) -> Amounts:
    """What so many cost together."""
    return Amounts({name: amount * count for name, amount in amounts.items() if amount * count})


@dataclass(frozen=True, slots=True)
class _ResourceForecast:
    """One name under one bound."""

    workload: ForecastWorkload
    limit: ForecastLimit
    name: str
    per_pod: int

    @property
    def has_surge(self) -> bool:
        """Whether a rollout begins that starts new pods first."""
        return self.workload.is_rollout and self.workload.replicas.surge > 0

    def forecast_never(self) -> Forecast:
        hard, replicas = self.limit.hard[self.name], self.workload.replicas
        fit = hard // self.per_pod
        end = f"{fit} of them can run at a time" if fit else "none of them can ever run"
        return self._create_forecast(
            self.limit.over_code,
            f"{self._describe_request(replicas.count)}, {self._describe_limit()}: {end}",
            permanent=True,
        )

    def forecast_rollout(self) -> Forecast | None:
        """A rollout has no room for its first new pod, or for all that it would start at once."""
        replicas, hard = self.workload.replicas, self.limit.hard[self.name]
        request, limit = self._describe_rollout_request(), self._describe_limit()
        if (
            replicas.is_surge_required
            and (replicas.count + 1) * self.per_pod > hard
            and (self.workload.is_rollout or self.workload.old_template is None)
        ):
            text = f"{request}, {limit}: a rollout can never go on, since maxUnavailable lets it end no old pod first"
            return self._create_forecast(self.limit.rollout_code, text, permanent=self.workload.is_rollout)
        if self.has_surge and (replicas.count + replicas.surge) * self.per_pod > hard:
            return self._create_forecast(
                self.limit.rollout_code, f"{request}, {limit}: it goes on only as old pods end", permanent=False
            )
        return None

    def forecast_wait(self, charged: int, increase: int) -> Iterator[Forecast]:
        """Not all of what is new has room at the moment, or of what a rollout starts first."""
        free = max(self.limit.hard[self.name] - charged, 0)
        limit = f"{self._describe_limit()} and has {format_amount(self.name, free)} free"
        if increase > free:
            waiting = -(-(increase - free) // self.per_pod)
            text = (
                f"{self._describe_request(self.workload.replicas.count)}, {limit}: {waiting} "
                f"wait{'s' * (waiting == 1)} until other pods end"
            )
            yield self._create_forecast(self.limit.wait_code, text, permanent=False)
        elif self.has_surge and increase + self.workload.replicas.surge * self.per_pod > free:
            starts_none = self.workload.replicas.is_surge_required and increase + self.per_pod > free
            end = "no new pod starts until others end" if starts_none else "it goes on only as pods end"
            yield self._create_forecast(
                self.limit.rollout_code, f"{self._describe_rollout_request()}, {limit}: {end}", permanent=False
            )

    def _describe_request(self, count: int) -> str:
        noun = self.workload.replicas.noun if count != 1 else self.workload.replicas.noun.removesuffix("s")
        return (
            f"{count} {noun} {'ask' if count != 1 else 'asks'} {format_amount(self.name, count * self.per_pod)} "
            f"{self.name}"
        )

    def _describe_rollout_request(self) -> str:
        replicas = self.workload.replicas
        return f"with a rollout's {replicas.surge} more, {self._describe_request(replicas.count + replicas.surge)}"

    def _describe_limit(self) -> str:
        return f"{self.limit.label} allows {format_amount(self.name, self.limit.hard[self.name])}"

    def _create_forecast(self, code: Code, text: str, *, permanent: bool) -> Forecast:
        return Forecast(
            Problem("", code.number, Reason.FORBIDDEN, text, rule=self.limit.cap, policy_kind="cap"), permanent
        )


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


WORKLOAD_KINDS = KIND_NAMES - {"Pod", "PodTemplate", "Node", "ResourceQuota", "LimitRange"}
"""The kinds that make pods."""


class _RawTemplate(msgspec.Struct):
    """A template as it is written, to tell whether it is another."""

    template: msgspec.Raw = msgspec.Raw()


class _WithTemplate(msgspec.Struct):
    spec: _RawTemplate = msgspec.field(default_factory=_RawTemplate)


def create_workload(kind: str, decoded_object: DecodedObject, pod_view: PodView | None) -> ForecastWorkload | None:
    """The workload that an object is; None for what makes no pods, or makes them for another workload."""
    replica_counts = count_replicas(kind, decoded_object)
    if replica_counts is None or pod_view is None or _is_controlled(decoded_object):
        return None
    return ForecastWorkload(replica_counts, pod_view.pod, pod_view.path)


def decode_workloads(
    request: AdmissionRequest, pod_target: ReviewTarget
) -> tuple[ForecastWorkload | None, ForecastWorkload | None]:
    """The workload that a change makes and the one that it replaces.

    Raises:
        ReviewError: the object is not of the kind it says it is.
    """
    decoded_object = decode_object(pod_target, request, request.object)
    new = create_workload(request.kind, decoded_object, pod_target.find_pod(decoded_object))
    if new is None or request.old_object is None:
        return new, None
    decoded_object = decode_object(pod_target, request, request.old_object)
    old, old_view = (
        create_workload(request.kind, decoded_object, pod_target.find_pod(decoded_object)),
        pod_target.find_pod(decoded_object),
    )
    is_rollout = _decode_template(request.object) != _decode_template(request.old_object)
    return replace(new, old_template=old_view.pod if old_view else Pod(), is_rollout=is_rollout), old


def forecast_cap(
    workload: ForecastWorkload,
    cap: ActiveCap,
    compute_charge: Callable[[Pod], Charge],
    before: Amounts,
    read_ledger: Callable[[], Ledger | None],
) -> Iterator[Forecast]:
    """What will become of the workload's pods under one cap.

    `hold` says what one pod costs, `before` is what the ledger counts of them already; `ledger` gives the ledger, or
    None where it is out of reach.
    """
    charge = compute_charge(workload.template)
    if workload.replicas.count:
        already_unlimited = compute_charge(workload.old_template).unlimited if workload.old_template else {}
        for name, containers in charge.unlimited.items():
            if added := tuple(each for each in containers if each not in already_unlimited.get(name, ())):
                yield Forecast(
                    create_missing_limit_problem(cap.definition.name, name, added, workload.path), permanent=True
                )

    def read_charged() -> Amounts | None:
        ledger = read_ledger()
        return None if ledger is None else ledger.compute_charged()

    scope = "shared by its namespaces" if cap.definition.shared else "of this namespace"
    codes = WORKLOAD_OVER_CAP, WORKLOAD_OVER_FREE, WORKLOAD_ROLLOUT
    limit = ForecastLimit(f"cap {cap.definition.name} {scope}", cap.hard, *codes, cap=cap.definition.name)
    yield from forecast_resources(workload, limit, charge.amounts, before, read_charged)


def _is_controlled(decoded_object: DecodedObject) -> bool:
    """Whether a controller made it for a workload that was judged itself: nobody would read what is said."""
    owners = (decoded_object.metadata.owner_references if decoded_object.metadata else None) or ()
    return any(owner.controller for owner in owners)


def _decode_template(raw: object) -> bytes:
    """The template's JSON; the API server writes equal objects alike."""
    try:
        return bytes(msgspec.json.decode(raw, type=_WithTemplate).spec.template)  # type: ignore[call-overload]  # bytes or Raw alike
    except msgspec.DecodeError:
        return b""
