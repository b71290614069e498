"""Forecasts for the claims for devices that a controller makes from templates, for each pod that names them.

The controller makes the claims after the pod is stored, and reports a rejected claim in an event on the pod, which
stays pending. The gate reports it when the pod is created; `workload_forecast` does so when a workload is applied. A
forecast reserves nothing, and each claim is still decided when it is created.

A claim that a pod names itself is charged by its own creation, so it is not part of a forecast. Under a cap by
allocated devices its creator is warned, and so is the creator of a template. Sources: handleClaim in
pkg/controller/resourceclaim/controller.go, BindTo in k8s.io/dynamic-resource-allocation/resourceclaim, v1.37.

A cap by allocated devices decides when kube-scheduler allocates them, and reports a rejection in the condition of a
pod. The amounts of its forecasts are lower bounds over the devices that are published now, so that a warning states
what is certain for these devices (`accounting.devices.least_amounts`). It denies nothing: others may come later.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple, Protocol

import msgspec

from tallygate.accounting.amounts import NO_AMOUNTS, Amounts, format_amount
from tallygate.accounting.devices.least_amounts import LeastAmounts, LeastAmountsReview
from tallygate.accounting.problem import Problem, Reason
from tallygate.accounting.quantity_parser import QuantityError
from tallygate.admission.cap_index import ActiveCap
from tallygate.admission.evaluate import SCHEDULER_USER
from tallygate.admission.kinds import DecodedRequest
from tallygate.admission.pod_view import PodView
from tallygate.admission.request import CREATE
from tallygate.admission.rule_codes import CLAIMS_OVER_CAP, CLAIMS_OVER_FREE, DEVICES_OVER_CAP, DEVICES_OVER_FREE
from tallygate.objects.core import Pod, PodSpec
from tallygate.objects.devices import ResourceClaim, ResourceClaimTemplate, ResourceClaimTemplateSpec
from tallygate.objects.meta import ObjectMeta
from tallygate.policy.matching import matches_subjects
from tallygate.policy.model import ForecastEnforcement
from tallygate.review.cap_charge import CapCharge, CapChargeResult
from tallygate.review.cap_messages import (
    create_unknown_product_problem,
    describe_larger_limit,
    describe_scope,
    describe_wait,
)
from tallygate.review.cap_reach import GuaranteeFinder, describe_share
from tallygate.state.ledger.ledger import Ledger

CLAIMS_FIELD = "spec.resourceClaims"
"""The path of the claims in a pod or template."""

_AUTHENTICATED = "system:authenticated"
_CONTROLLERS = (
    (
        "system:serviceaccount:kube-system:resource-claim-controller",
        ("system:serviceaccounts", "system:serviceaccounts:kube-system", _AUTHENTICATED),
    ),
    ("system:kube-controller-manager", (_AUTHENTICATED,)),
)
"""The user that creates the claims, and the same without the credentials of service accounts, with their groups."""


class ForecastSubject(NamedTuple):
    """The begin of a message, and the pod that waits."""

    gets: str
    pod: str


CLAIM = ForecastSubject("this claim gets", "its pod")
TEMPLATE = ForecastSubject("a claim of this template gets", "its pod")
POD = ForecastSubject("the claims of this pod get", "the pod")


def compute_least(cap: ActiveCap, claims: Sequence[ResourceClaim], review: LeastAmountsReview | None) -> Amounts:
    """Return the least that claims together count under a cap once they are allocated; empty if nothing is known.

    It is also empty if kube-scheduler may exceed the cap, since it allocates the devices of all claims.
    """
    if review is None or not forecasts_devices(cap):
        return NO_AMOUNTS
    counted = [claim for claim in claims if cap.counts_allocation(claim, is_owned=False)]
    return review.compute(counted, cap.device_meters)


def forecasts_devices(cap: ActiveCap) -> bool:
    """Return whether a cap warns about claims whose devices it counts."""
    if not cap.device_meters or cap.definition.workloads is ForecastEnforcement.IGNORE:
        return False
    return not matches_subjects(cap.definition.exceed, SCHEDULER_USER, (_AUTHENTICATED,))


def is_counted(ledger: Ledger, cap: ActiveCap, name: str) -> bool:
    """Return whether a ledger counts a name as the cap defines it now."""
    return not ledger.initializer and ledger.resources >= cap.list_sources((name,))


def forecast_amounts(
    subject: ForecastSubject,
    least: Amounts,
    cap: ActiveCap,
    guarantees: GuaranteeFinder,
    read_ledger: Callable[[], Ledger | None] = lambda: None,
) -> Iterator[Problem]:
    """Yield a problem for each amount that exceeds what a namespace may have under a cap, or what is free for it."""
    for name, amount in sorted(least.items()):
        hard = cap.hard.get(name)
        if hard is None:
            continue
        text = (
            f"{subject.gets} at least {format_amount(name, amount)} {name} of the published devices, "
            f"cap {cap.definition.name} {describe_scope(cap)} has hard {cap.limits.describe(name)}"
        )
        if amount > (reach := guarantees.find_reach(cap, name)).ever:
            text = f"{text}{describe_share(cap, name, reach)}: with these devices {subject.pod} can never run"
            yield _create_problem(DEVICES_OVER_CAP, cap, text)
            continue
        ledger = read_ledger()
        if ledger is None or not is_counted(ledger, cap, name):
            continue
        free = max(hard - ledger.compute_taken(guarantees.namespace).get(name, 0), 0)
        if amount > free:
            wait = describe_wait(cap, name) if amount <= reach.now else describe_larger_limit(cap, name)
            text = f"{text}, free {format_amount(name, free)}: {subject.pod} stays pending until {wait}"
            yield _create_problem(DEVICES_OVER_FREE, cap, text)


class ClaimTemplateLister(Protocol):
    """A source of the ResourceClaimTemplates of namespaces."""

    def find_claim(self, namespace: str, name: str) -> ResourceClaim | None:
        """Return a claim as a template makes it; None if the template is unknown."""
        ...


class PodClaims(msgspec.Struct, frozen=True):
    """The claims that templates make for one pod.

    `unknown` is the reason why they are not known, else empty; then there are no claims. `unseen_template` is the name
    of a template that is unknown, if that is the reason. `is_controlled` is True if a controller created the pod, so
    that no user reads a warning about it. `review` has the least amounts of published devices, where slices are
    watched.
    """

    claims: tuple[ResourceClaim, ...] = ()
    unknown: str = ""
    is_controlled: bool = False
    review: LeastAmountsReview | None = None
    unseen_template: str = ""

    def with_review(self, review: LeastAmountsReview | None) -> "PodClaims":
        """Return the claims with the least amounts of a review; the same if it has none for them."""
        return self if review is None or not self.claims else msgspec.structs.replace(self, review=review)

    def compute_least(self, cap: ActiveCap) -> Amounts:
        """Return the least that all claims count under a cap once they are allocated, by the published devices."""
        return compute_least(cap, self.claims, self.review)

    def compute_charge(self, cap: ActiveCap) -> Amounts:
        """Return the charge of all claims under a cap; empty if the cap does not apply to their controller."""
        if not self.claims or _may_controller_exceed(cap):
            return NO_AMOUNTS
        return sum((cap.compute_claim_charge(claim) for claim in self.claims), NO_AMOUNTS)

    def list_unknown_products(self, cap: ActiveCap) -> list[str]:
        """Return the names under a cap that are products of which a claim has one factor: such a claim is denied."""
        if not self.claims or _may_controller_exceed(cap):
            return []
        return sorted({name for claim in self.claims for name in cap.list_unknown_products(claim)})


def _may_controller_exceed(cap: ActiveCap) -> bool:
    """Return whether a cap does not apply to the controller that makes the claims."""
    return any(matches_subjects(cap.definition.exceed, *controller) for controller in _CONTROLLERS)


NO_CLAIMS = PodClaims()

LedgerReader = Callable[[ActiveCap], Ledger | None]
"""Returns the ledger of a cap, or None if it is unavailable."""


def find_pod_claims(pod: Pod, namespace: str, templates: ClaimTemplateLister) -> PodClaims:
    """Return the claims that templates make for a pod."""
    spec = pod.spec
    if spec is None or not spec.resource_claims:
        return NO_CLAIMS
    names = [name for claim in spec.resource_claims if (name := claim.resource_claim_template_name)]
    if not names:
        return NO_CLAIMS
    controlled = is_controlled(pod.metadata)
    if spec.scheduling_group is not None:
        return PodClaims(unknown="the pods of a group may share their claims", is_controlled=controlled)
    found: dict[str, ResourceClaim] = {}
    for name in dict.fromkeys(names):
        claim = templates.find_claim(namespace, name)
        if claim is None:  # ask for no other one: each unknown template may be waited for
            unknown = f"ResourceClaimTemplate {name} is unknown"
            return PodClaims(unknown=unknown, is_controlled=controlled, unseen_template=name)
        found[name] = claim
    return PodClaims(tuple(found[name] for name in names), is_controlled=controlled)


class TemplateClaims(NamedTuple):
    """The claims that are made for `each` pod of a template, and those that are made once and `shared` by its pods.

    If those of one are unknown, so are the others.
    """

    each: PodClaims
    shared: PodClaims


def find_template_claims(view: PodView, namespace: str, templates: ClaimTemplateLister) -> TemplateClaims:
    """Return the claims that templates make for the pods of a template.

    A pod shares a claim of the PodGroup of its Job that it names alike: by the same name, from the same template
    (BindTo in dynamic-resource-allocation/resourceclaim, v1.37).
    """
    spec, group_claims = view.pod.spec, view.group_claims
    if not group_claims or spec is None:
        return TemplateClaims(find_pod_claims(view.pod, namespace, templates), NO_CLAIMS)
    own = [claim for claim in spec.resource_claims or () if claim not in group_claims]
    pod = msgspec.structs.replace(view.pod, spec=msgspec.structs.replace(spec, resource_claims=own))
    each = find_pod_claims(pod, namespace, templates)
    if each.unknown:
        return TemplateClaims(each, each)
    group = Pod(metadata=view.pod.metadata, spec=PodSpec(resource_claims=list(group_claims)))
    shared = find_pod_claims(group, namespace, templates)
    return TemplateClaims(shared if shared.unknown else each, shared)


def counts_devices(caps: Iterable[ActiveCap], review: LeastAmountsReview | None) -> bool:
    """Return whether one of the caps counts claims, denies them, or warns of the least that they get."""
    return any(
        cap.device_sources
        or cap.multiplies_devices
        or cap.classes.open_names  # a class that is not seen may count
        or (review is not None and forecasts_devices(cap))
        for cap in caps
    )


def describe_unknown(claims: PodClaims, limits: str = "caps") -> str:
    """Return the message that claims have no forecast; empty if they have one, or if no user reads it.

    `limits` is the noun for what the claims were not compared with.
    """
    if not claims.unknown or claims.is_controlled:
        return ""
    return f"the claims that templates make were not compared with {limits}: {claims.unknown}"


def describe_unseen_classes(
    caps: Iterable[ActiveCap], claims: Iterable[ResourceClaim], pods: Iterable[Pod] = ()
) -> str:
    """Return the message that pods, or claims for them, were not compared with a cap: they name an unseen class."""
    claims, pods = tuple(claims), tuple(pods)
    for cap in caps:
        unseen = next(filter(None, map(cap.find_unseen_class_of_claim, claims)), None)
        if unseen is None:
            with suppress(QuantityError):  # the API server's validation reports it
                unseen = next(filter(None, (cap.examine_classes(pod).unseen for pod in pods)), None)
        if unseen is not None:
            return f"devices were not compared with cap {cap.definition.name}: {unseen}"
    return ""


def describe_unseen_template(decoded_request: DecodedRequest, caps: Iterable[ActiveCap]) -> str:
    """Return the same message for the claims of a template that the request creates; empty for any other request."""
    target = decoded_request.target
    if target is None or decoded_request.request.operation != CREATE:
        return ""
    created = decoded_request.get_object(target)
    if not isinstance(created, ResourceClaimTemplate) or is_controlled(created.metadata):
        return ""
    spec = created.spec or ResourceClaimTemplateSpec()
    return describe_unseen_classes(caps, (ResourceClaim(spec.metadata, spec.spec),))


def is_controlled(meta: ObjectMeta | None) -> bool:
    """Return whether a controller created the object for another one. No user reads a warning about it."""
    return any(owner.controller for owner in (meta.owner_references if meta else None) or ())


def forecast_devices(
    decoded_request: DecodedRequest,
    caps: Iterable[ActiveCap],
    least_amounts: LeastAmounts,
    guarantees: GuaranteeFinder,
) -> Iterator[Problem]:
    """Yield a problem for each cap by allocated devices that has no room for the claim or template that is created.

    No user reads a warning about a claim that a controller or kube-scheduler creates. A template needs no room itself:
    only a cap that could never allow its claims is a problem.
    """
    request, target = decoded_request.request, decoded_request.target
    forecasting = [cap for cap in caps if forecasts_devices(cap)]
    if not forecasting or target is None or request.operation != CREATE or request.user.name == SCHEDULER_USER:
        return
    created = decoded_request.get_object(target)
    if is_controlled(created.metadata):
        return
    if isinstance(created, ResourceClaimTemplate):
        spec = created.spec or ResourceClaimTemplateSpec()
        claim, subject = ResourceClaim(spec.metadata, spec.spec), TEMPLATE
    elif isinstance(created, ResourceClaim):
        claim, subject = created, CLAIM
    else:
        return
    review = least_amounts.start_review()
    for cap in forecasting:
        read = partial(guarantees.read_ledger, cap) if subject is CLAIM else _return_ledger
        yield from forecast_amounts(subject, compute_least(cap, (claim,), review), cap, guarantees, read)


def _return_ledger(ledger: Ledger | None = None, _: object = None) -> Ledger | None:
    return ledger


def forecast_impossible_claims(
    claims: PodClaims, charges: Sequence[CapCharge], guarantees: GuaranteeFinder
) -> Iterator[Problem]:
    """Yield a problem for each resource of which the pod and its claims request more than the namespace may ever have.

    Yield one too for each product of which a claim has one factor: the cap denies that claim.
    """
    for charge in charges:
        cap = charge.cap
        for name in claims.list_unknown_products(cap):
            if name in cap.hard:
                yield create_unknown_product_problem(cap, name, CLAIMS_FIELD)
        for name, claimed in sorted(claims.compute_charge(cap).items()):
            own = charge.requested.get(name, 0)
            if name in cap.hard and own + claimed > (reach := guarantees.find_reach(cap, name)).ever:
                request, share = describe_claims_request(name, own, claimed), describe_share(cap, name, reach)
                text = f"{request}, {_describe_limit(cap, name)}{share}: the pod can never run"
                yield _create_problem(CLAIMS_OVER_CAP, cap, text)


def forecast_waiting_claims(
    claims: PodClaims, results: Sequence[CapChargeResult], guarantees: GuaranteeFinder
) -> Iterator[Problem]:
    """Yield a problem for each resource of which the claims exceed what a cap has free besides the charged pod.

    Yield one too for the least that they get under a cap by allocated devices. The claim controller reports the
    rejection of a claim on the pod, and kube-scheduler that of an allocation, which is enough if a controller created
    the pod.
    """
    for result in () if claims.is_controlled else results:
        cap, ledger = result.charge.cap, result.ledger
        if cap.definition.workloads is ForecastEnforcement.IGNORE or ledger.initializer:
            continue
        read = partial(_return_ledger, ledger)
        known = guarantees._replace(read_ledger=read)
        yield from forecast_amounts(POD, claims.compute_least(cap), cap, known, read)
        for name, claimed in sorted(claims.compute_charge(cap).items()):
            free = max(cap.hard.get(name, claimed) - ledger.compute_taken(guarantees.namespace).get(name, 0), 0)
            if name in cap.hard and claimed > free:
                text = (
                    f"{describe_claims_request(name, 0, claimed)}, {_describe_limit(cap, name)}, "
                    f"free {format_amount(name, free)}: the pod stays pending until {describe_wait(cap, name)}"
                )
                yield _create_problem(CLAIMS_OVER_FREE, cap, text)


def describe_claims_request(name: str, own: int, claimed: int) -> str:
    """Return the sum that a pod and its claims request; `own` is what the pod requests without its claims."""
    if not own:
        return f"the claims of this pod request {format_amount(name, claimed)} {name}"
    return (
        f"this pod and its claims request {format_amount(name, own + claimed)} {name} "
        f"({format_amount(name, own)} + {format_amount(name, claimed)})"
    )


def _describe_limit(cap: ActiveCap, name: str) -> str:
    return f"cap {cap.definition.name} {describe_scope(cap)} has hard {cap.limits.describe(name)}"


def _create_problem(code: str, cap: ActiveCap, text: str) -> Problem:
    return Problem("", code, Reason.FORBIDDEN, text, rule=cap.definition.name, policy_kind="cap")
