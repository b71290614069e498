"""What the caps will say to the pods of a workload, said when the workload is applied.

Kubernetes says it to the controller only, in an event on a ReplicaSet (kubernetes#96634). What is said here is a
forecast: nothing is promised, and every pod is still judged when it comes.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import msgspec

from webhook.accounting.amounts import Amounts
from webhook.accounting.charge import Charge
from webhook.admission.capping import Counted
from webhook.admission.change import Change
from webhook.admission.codes import WORKLOAD_OVER_CAP, WORKLOAD_ROLLOUT, WORKLOAD_WAITS
from webhook.admission.reading import decoded
from webhook.admission.replicas import replicas
from webhook.admission.workloads import KINDS, Judged, PodView, Target
from webhook.gate.arithmetic import create_missing_limit_problem
from webhook.gate.room import Forecast, ForecastLimit, ForecastWorkload, forecast_resources
from webhook.objects.core import Pod
from webhook.state.ledger import Ledger

WORKLOAD_KINDS = KINDS - {"Pod", "PodTemplate", "Node", "ResourceQuota", "LimitRange"}
"""The kinds that make pods."""


class _RawTemplate(msgspec.Struct):
    """A template as it is written, to tell whether it is another."""

    template: msgspec.Raw = msgspec.Raw()


class _WithTemplate(msgspec.Struct):
    spec: _RawTemplate = msgspec.field(default_factory=_RawTemplate)


def create_workload(kind: str, decoded_object: Judged, pod_view: PodView | None) -> ForecastWorkload | None:
    """The workload that an object is; None for what makes no pods, or makes them for another workload."""
    replica_counts = replicas(kind, decoded_object)
    if replica_counts is None or pod_view is None or _is_controlled(decoded_object):
        return None
    return ForecastWorkload(replica_counts, pod_view.pod, pod_view.path)


def decode_workloads(request: Change, pod_target: Target) -> tuple[ForecastWorkload | None, ForecastWorkload | None]:
    """The workload that a change makes and the one that it replaces.

    Raises:
        ReviewError: the object is not of the kind it says it is.
    """
    decoded_object = decoded(pod_target, request, request.object)
    new = create_workload(request.kind, decoded_object, pod_target.view(decoded_object))
    if new is None or request.old is None:
        return new, None
    decoded_object = decoded(pod_target, request, request.old)
    old, old_view = (
        create_workload(request.kind, decoded_object, pod_target.view(decoded_object)),
        pod_target.view(decoded_object),
    )
    is_rollout = _decode_template(request.object) != _decode_template(request.old)
    return replace(new, old_template=old_view.pod if old_view else Pod(), is_rollout=is_rollout), old


def forecast_cap(
    workload: ForecastWorkload,
    cap: Counted,
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
                yield Forecast(create_missing_limit_problem(cap.cap.name, name, added, workload.path), permanent=True)

    def read_charged() -> Amounts | None:
        ledger = read_ledger()
        return None if ledger is None else ledger.compute_charged()

    scope = "shared by its namespaces" if cap.cap.shared else "of this namespace"
    codes = WORKLOAD_OVER_CAP, WORKLOAD_WAITS, WORKLOAD_ROLLOUT
    limit = ForecastLimit(f"cap {cap.cap.name} {scope}", cap.hard, *codes, cap=cap.cap.name)
    yield from forecast_resources(workload, limit, charge.amounts, before, read_charged)


def _is_controlled(decoded_object: Judged) -> bool:
    """Whether a controller made it for a workload that was judged itself: nobody would read what is said."""
    owners = (decoded_object.metadata.owner_references if decoded_object.metadata else None) or ()
    return any(owner.controller for owner in owners)


def _decode_template(raw: object) -> bytes:
    """The template's JSON; the API server writes equal objects alike."""
    try:
        return bytes(msgspec.json.decode(raw, type=_WithTemplate).spec.template)  # type: ignore[call-overload]  # bytes or Raw alike
    except msgspec.DecodeError:
        return b""
