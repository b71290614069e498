"""The workload of a request, with the pods and claims that its controller makes: the subject of its forecasts."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import msgspec

from tallygate.webhook.accounting.amounts import Amounts
from tallygate.webhook.accounting.charge import Charge
from tallygate.webhook.accounting.devices.least_amounts import LeastAmountsReview
from tallygate.webhook.admission.cap_index import ActiveCap
from tallygate.webhook.admission.kinds import (
    KIND_NAMES,
    DecodedObject,
    PodView,
    ReplicaCount,
    ReviewTarget,
    count_replicas,
    decode_object,
)
from tallygate.webhook.admission.request import AdmissionRequest
from tallygate.webhook.gate.claim_forecast import (
    NO_CLAIMS,
    ClaimTemplateLister,
    PodClaims,
    find_pod_claims,
    is_controlled,
)
from tallygate.webhook.objects.core import Pod

WORKLOAD_KINDS = KIND_NAMES - {
    "LimitRange",
    "Node",
    "Pod",
    "PodTemplate",
    "ResourceClaim",
    "ResourceClaimTemplate",
    "ResourceQuota",
}
"""The kinds that create pods."""


@dataclass(frozen=True, slots=True)
class ForecastWorkload:
    """The replicas of a workload, its pod template, and the path of the template.

    `old_template` is the template that it replaces, None if the workload is new; `is_rollout` is True if the two
    differ. `claims` are the claims that are made for each pod.
    """

    replicas: ReplicaCount
    template: Pod
    path: str
    old_template: Pod | None = None
    is_rollout: bool = False
    claims: PodClaims = NO_CLAIMS

    def sum_charges(self, cap: ActiveCap, compute_charge: Callable[[Pod], Charge]) -> Amounts:
        """Return the charge of all its pods and claims, given the function that computes the charge of one pod."""
        claimed = self.claims.compute_charge(cap) + self.claims.compute_least(cap)
        return multiply(compute_charge(self.template).amounts + claimed, self.replicas.count)


def multiply(amounts: Amounts, count: int) -> Amounts:
    """Return the amounts of `count` pods together."""
    return Amounts({name: amount * count for name, amount in amounts.items() if amount * count})


class _RawTemplate(msgspec.Struct):
    """A pod template as undecoded JSON, to detect a change."""

    template: msgspec.Raw = msgspec.Raw()


class _WithTemplate(msgspec.Struct):
    spec: _RawTemplate = msgspec.field(default_factory=_RawTemplate)


def create_workload(kind: str, decoded_object: DecodedObject, pod_view: PodView | None) -> ForecastWorkload | None:
    """Return the workload in an object; None if it creates no pods, or a controller of another workload owns it.

    The gate evaluates that other workload itself.
    """
    replica_counts = count_replicas(kind, decoded_object)
    if replica_counts is None or pod_view is None or is_controlled(decoded_object.metadata):
        return None
    return ForecastWorkload(replica_counts, pod_view.pod, pod_view.path)


def decode_workloads(
    request: AdmissionRequest, pod_target: ReviewTarget
) -> tuple[ForecastWorkload | None, ForecastWorkload | None]:
    """Return the workload of a request and the one that it replaces.

    Raises:
        ReviewError: if the object is not of the kind that it states.
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


def add_claims(
    workload: ForecastWorkload,
    old_workload: ForecastWorkload | None,
    namespace: str,
    templates: ClaimTemplateLister,
    review: LeastAmountsReview | None,
) -> tuple[ForecastWorkload, ForecastWorkload | None]:
    """Return both versions of a workload with the claims that templates make for their pods.

    If those of one version are unknown, the increase is unknown too: then both are without claims. If the claims
    change, the old ones may have got more than their least, so the increase under caps by allocated devices is unknown.
    """
    new, old = find_pod_claims(workload.template, namespace, templates), NO_CLAIMS
    if old_workload is not None and not new.unknown:
        old = find_pod_claims(old_workload.template, namespace, templates)
    if unknown := new.unknown or old.unknown:
        return replace(workload, claims=PodClaims(unknown=unknown)), old_workload
    if old_workload is None:
        return replace(workload, claims=new.with_review(review)), None
    if new.claims != old.claims:
        review = None
    return replace(workload, claims=new.with_review(review)), replace(old_workload, claims=old.with_review(review))


def _decode_template(raw: object) -> bytes:
    """Return the JSON of the template; the API server writes equal objects alike."""
    try:
        return bytes(msgspec.json.decode(raw, type=_WithTemplate).spec.template)  # type: ignore[call-overload]  # bytes or Raw alike
    except msgspec.DecodeError:
        return b""
