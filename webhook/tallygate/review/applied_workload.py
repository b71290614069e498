"""The workload of a request, with the pods and claims that its controller makes: the subject of its forecasts."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from tallygate.accounting.amounts import NO_AMOUNTS, Amounts
from tallygate.accounting.charge import Charge
from tallygate.accounting.devices.least_amounts import LeastAmountsReview
from tallygate.accounting.pod_defaults import NO_POD_DEFAULTS, PodDefaults
from tallygate.accounting.resource_quota import reaches_namespaces
from tallygate.accounting.validation.unreadable import is_pod_readable
from tallygate.admission.cap_index import ActiveCap
from tallygate.admission.implied_requests import NO_IMPLIED, ImpliedRequests
from tallygate.admission.kinds import DecodedObject, GroupKind, ReviewTarget, decode_object
from tallygate.admission.pod_view import PodView, ReplicaCount, read_template
from tallygate.admission.request import AdmissionRequest
from tallygate.objects.core import Pod
from tallygate.objects.devices import ResourceClaim
from tallygate.objects.scheduling import PodAffinities, PodWithAffinities
from tallygate.review.claim_forecast import (
    NO_CLAIMS,
    ClaimTemplateLister,
    PodClaims,
    TemplateClaims,
    find_template_claims,
    is_controlled,
)

_AFFINITIES = msgspec.json.Decoder(PodWithAffinities)


@dataclass(frozen=True, slots=True)
class ForecastPods:
    """The pods of one template of a workload.

    `old_template` is the template that it replaces, None if there was none; `is_rollout` is True if the two differ.
    `old_most` is the number to which an autoscaler could raise that of the old ones. `claims` are the claims that are
    made for each pod, `shared` those that are made once for all of them. `reaches_namespaces` tells whether the pods
    have affinity to pods in other namespaces; None if it is not known.
    """

    view: PodView
    replicas: ReplicaCount
    old_template: Pod | None = None
    old_most: int = 0
    is_rollout: bool = False
    claims: PodClaims = NO_CLAIMS
    shared: PodClaims = NO_CLAIMS
    reaches_namespaces: bool | None = None

    @property
    def template(self) -> Pod:
        """The template of the pods."""
        return self.view.pod

    @property
    def kinds_of_claims(self) -> tuple[ResourceClaim, ...]:
        """The claims of one pod, and those that all share."""
        return self.claims.claims + self.shared.claims


@dataclass(frozen=True, slots=True)
class ForecastWorkload:
    """A workload: the pods of each of its templates, with the `defaults` that built-in admission gives them.

    `uncounted_kind` is the kind of a workload with one pod on each node where the nodes are not known: one pod counts,
    the least. `unreadable` is the path of a template of which no pod counts: a value in it is no quantity.
    """

    pod_sets: tuple[ForecastPods, ...]
    defaults: PodDefaults = NO_POD_DEFAULTS
    uncounted_kind: str = ""
    unreadable: str = ""

    @property
    def pod_count(self) -> int:
        """The number of all its pods."""
        return sum(pods.replicas.count for pods in self.pod_sets)

    @property
    def is_rollout(self) -> bool:
        """True if one of its templates changes."""
        return any(pods.is_rollout for pods in self.pod_sets)

    @property
    def unknown_claims(self) -> PodClaims:
        """The claims of the first template whose claims are unknown, else none."""
        return next((pods.claims for pods in self.pod_sets if pods.claims.unknown), NO_CLAIMS)

    def sum_charges(self, cap: ActiveCap, compute_charge: Callable[[Pod], Charge]) -> Amounts:
        """Return the charge of all its pods and claims, given the function that computes the charge of one pod."""
        return sum_pod_sets(
            (
                pods.replicas,
                compute_charge(pods.template).amounts
                + pods.claims.compute_charge(cap)
                + pods.claims.compute_least(cap),
            )
            for pods in self.pod_sets
        ) + sum((pods.shared.compute_least(cap) for pods in self.pod_sets), self.sum_shared(cap))

    def sum_shared(self, cap: ActiveCap) -> Amounts:
        """Return the charge of the claims that are made once for all pods of a template."""
        return sum((pods.shared.compute_charge(cap) for pods in self.pod_sets), NO_AMOUNTS)


_DAEMON_SET: Final[GroupKind] = ("apps", "DaemonSet")
_UNCOUNTED: Final = frozenset({("apps.kruise.io", "DaemonSet"), ("apps.kruise.io", "BroadcastJob")})
"""Kinds of other projects with one pod on each node; which nodes these are is decided by rules that are not known."""

DaemonPodCounter = Callable[[PodView, object, ImpliedRequests], int | None]
"""Returns the number of pods of a DaemonSet, given its template, its JSON and what its pods get; None if the nodes that
decide it are not known."""


def count_daemon_pods(
    workload: ForecastWorkload,
    kind: GroupKind,
    content: object,
    implied: ImpliedRequests,
    count: DaemonPodCounter | None,
) -> ForecastWorkload:
    """Return a DaemonSet with the number of its pods, given its JSON, and a workload of another kind as it is."""
    if kind != _DAEMON_SET and kind not in _UNCOUNTED:
        return workload
    (pods,) = workload.pod_sets
    if not pods.replicas.count:  # it is paused
        return workload
    counted = count(pods.view, content, implied) if count is not None and kind == _DAEMON_SET else None
    if counted is None:
        return replace(workload, uncounted_kind=kind[1])
    return replace(workload, pod_sets=(replace(pods, replicas=ReplicaCount(counted, "pods")),))


def sum_pod_sets(pod_sets: Iterable[tuple[ReplicaCount, Amounts]]) -> Amounts:
    """Return the amounts of all pods of an object, given those of one pod of each template.

    Of the templates whose pods may run at different times only the largest amount counts, or that of those that start
    first.
    """
    together: dict[str, int] = {}
    first: dict[str, int] = {}
    separate: dict[str, int] = {}
    for replicas, per_pod in pod_sets:
        for name, amount in multiply(per_pod, replicas.count).items():
            if replicas.is_separate and not replicas.is_first:
                separate[name] = max(separate.get(name, 0), amount)
            else:
                amounts = first if replicas.is_first else together
                amounts[name] = amounts.get(name, 0) + amount
    largest = {name: max(first.get(name, 0), separate.get(name, 0)) for name in first | separate}
    return Amounts(together) + Amounts(largest)


def multiply(amounts: Amounts, count: int) -> Amounts:
    """Return the amounts of `count` pods together."""
    return Amounts({name: amount * count for name, amount in amounts.items() if amount * count})


def create_workload(
    decoded_object: DecodedObject,
    pod_views: Sequence[PodView],
    *,
    with_controlled: bool = False,
    defaults: PodDefaults = NO_POD_DEFAULTS,
) -> ForecastWorkload | None:
    """Return the workload in an object; None if it creates no pods, or a controller of another workload owns it.

    The gate evaluates that other workload itself, unless `with_controlled`. The views have the `defaults` already.
    """
    pod_sets = tuple(ForecastPods(view, view.replicas) for view in pod_views if view.replicas is not None)
    if not pod_sets or (is_controlled(decoded_object.metadata) and not with_controlled):
        return None
    return ForecastWorkload(pod_sets, defaults)


def decode_workloads(
    request: AdmissionRequest,
    pod_target: ReviewTarget,
    *,
    implied: ImpliedRequests = NO_IMPLIED,
    with_controlled: bool = False,
) -> tuple[ForecastWorkload | None, ForecastWorkload | None]:
    """Return the workload of a request and the one that it replaces; their pods have the implied requests.

    Raises:
        ReviewError: if the object is not of the kind that it states.
    """
    decoded_object = decode_object(pod_target, request, request.object)
    new_views = implied.complete_views(pod_target.list_pods(decoded_object))
    new = create_workload(decoded_object, new_views, with_controlled=with_controlled, defaults=implied.defaults)
    if new is None or request.old_object is None:
        return new, None
    decoded_object = decode_object(pod_target, request, request.old_object)
    old_views = implied.complete_views(pod_target.list_pods(decoded_object))
    old = create_workload(decoded_object, old_views, with_controlled=with_controlled, defaults=implied.defaults)
    new_contents = {view.identity: _read_template(view, request.object) for view in new_views}
    old_contents = {view.identity: _read_template(view, request.old_object) for view in old_views}
    old_templates = {view.identity: view.pod for view in old_views}
    old_most = {view.identity: view.replicas.most for view in old_views if view.replicas is not None}
    pod_sets = tuple(
        replace(
            pods,
            old_template=old_templates.get(pods.view.identity, Pod()),
            old_most=old_most.get(pods.view.identity, 0),
            is_rollout=new_contents[pods.view.identity] != old_contents.get(pods.view.identity, b""),
        )
        for pods in new.pod_sets
    )
    return replace(new, pod_sets=pod_sets), old


def leave_out_unreadable(workload: ForecastWorkload) -> ForecastWorkload:
    """Return a workload without the pods of templates with a value that is no quantity: none of them is ever stored.

    An API server stores such a template in an object of another project, whose fields it may not know, and rejects the
    pods that its controller creates. A change of the template replaces none of them.
    """
    pod_sets = tuple(map(_leave_out_unreadable_pods, workload.pod_sets))
    changed = (old.view for old, new in zip(workload.pod_sets, pod_sets, strict=True) if new.view is not old.view)
    unreadable = next((view.path.rstrip(".") for view in changed), "")
    return replace(workload, pod_sets=pod_sets, unreadable=unreadable)


def _leave_out_unreadable_pods(pods: ForecastPods) -> ForecastPods:
    if not is_pod_readable(pods.template.spec):
        view = msgspec.structs.replace(pods.view, pod=Pod())
        pods = replace(pods, view=view, replicas=ReplicaCount(0, pods.replicas.noun))
    if pods.old_template is not None and not is_pod_readable(pods.old_template.spec):
        pods = replace(pods, old_template=Pod())
    return pods


def select_pods(workload: ForecastWorkload, counts: Sequence[int]) -> ForecastWorkload:
    """Return a workload with these numbers of pods by template."""
    pod_sets = tuple(
        replace(pods, replicas=replace(pods.replicas, count=count), shared=pods.shared if count else NO_CLAIMS)
        for pods, count in zip(workload.pod_sets, counts, strict=True)
    )
    return replace(workload, pod_sets=pod_sets)


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

    A PodGroup and its claims are made when a Job is created, also a suspended one, which needs no room for them then:
    so they are no part of the increase when it starts.
    """
    old_sets = old_workload.pod_sets if old_workload is not None else ()
    found: list[TemplateClaims] = []
    for pods in (*workload.pod_sets, *old_sets):
        found.append(find_template_claims(pods.view, namespace, templates))
        if (each := found[-1].each).unknown:
            unknown = PodClaims(unknown=each.unknown, unseen_template=each.unseen_template)
            none_known = [TemplateClaims(unknown, NO_CLAIMS)] * len(workload.pod_sets)
            return _replace_claims(workload, none_known), old_workload
    new, old = found[: len(workload.pod_sets)], found[len(workload.pod_sets) :]
    if old_workload is None:
        starts = (pods.replicas.count > 0 for pods in workload.pod_sets)
        new = [
            claims if does_start else claims._replace(shared=NO_CLAIMS)
            for claims, does_start in zip(new, starts, strict=True)
        ]
        return _replace_claims(workload, new, review), None
    if [claims.each.claims for claims in new] != [claims.each.claims for claims in old]:
        review = None
    return _replace_claims(workload, new, review), _replace_claims(old_workload, old, review)


def add_affinities(workload: ForecastWorkload, content: object) -> ForecastWorkload:
    """Return a workload, given the JSON of its object, with whether its pods have affinity to other namespaces."""
    return replace(
        workload,
        pod_sets=tuple(replace(pods, reaches_namespaces=_find_reach(pods, content)) for pods in workload.pod_sets),
    )


def _find_reach(pods: ForecastPods, content: object) -> bool | None:
    try:
        spec = _AFFINITIES.decode(_read_template(pods.view, content)).spec
    except (msgspec.DecodeError, KeyError):
        return None
    return reaches_namespaces((spec.affinity if spec else None) or PodAffinities())


def _replace_claims(
    workload: ForecastWorkload, found: Sequence[TemplateClaims], review: LeastAmountsReview | None = None
) -> ForecastWorkload:
    pod_sets = tuple(
        replace(pods, claims=claims.each.with_review(review), shared=claims.shared.with_review(review))
        for pods, claims in zip(workload.pod_sets, found, strict=True)
    )
    return replace(workload, pod_sets=pod_sets)


def _read_template(pod_view: PodView, content: object) -> bytes:
    """Return the JSON of a template; the API server writes equal objects alike."""
    return bytes(read_template(pod_view, content))
