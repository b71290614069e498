"""Implied requests: what pods request of counted resources without writing it.

The mutating phase adds request and limit to the first container of a new pod, so that the effective request of the pod
becomes exactly the implied amount: init containers, sidecars and the overhead have none of it. A pod that names the
resource in any container, at pod level or in its overhead decides itself, also with 0. So a second call adds nothing.
Updates never add one, and mirror pods get none: the kubelet runs them already.

Pod templates stay as they are written. Forecasts and predictions complete them by the same function, since the pods are
made by controllers: a user who writes a workload does not create its pods, so `exempt` concerns new pods only. What
LimitRanges and the default PriorityClass give the pods comes first, as in the API server (`accounting.pod_defaults`).
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeVar

import msgspec

from tallygate.accounting.pod_defaults import NO_POD_DEFAULTS, PodDefaults
from tallygate.accounting.problem import Problem, Reason
from tallygate.admission.pod_view import PodView
from tallygate.admission.request import AdmissionRequest, PatchOperation, UserInfo, Verdict
from tallygate.objects.core import Container, Pod, PodSpec, ResourceList, ResourceRequirements
from tallygate.policy.matching import matches_labels, matches_namespace, matches_subjects
from tallygate.policy.model import Enforcement, ImpliedRequest, PolicySet

MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
"""The annotation by which the kubelet marks the copy of a static pod at the API server."""

POLICY_KIND = "implied request"
"""The kind of the policy in messages."""

_MAX_CACHED_NAMESPACES = 4096
_CONTAINER_FIELD = "spec.containers[0].resources"
_NO_LABELS: Mapping[str, str] = {}

P = TypeVar("P", bound=Pod)

IMPLIED_MISSING = "TG121"
IMPLIED_FOR_PODS = "TG122"


class ImpliedRequests(NamedTuple):
    """The implied requests that select a namespace, in their order.

    `unknown` are the names of those that select namespaces by label, where the labels are unknown. `defaults` are the
    values that built-in admission gives the pods before; rules evaluate templates without them.
    """

    requests: tuple[ImpliedRequest, ...] = ()
    unknown: tuple[str, ...] = ()
    defaults: PodDefaults = NO_POD_DEFAULTS

    def with_defaults(self, defaults: PodDefaults) -> "ImpliedRequests":
        """Return the same with the values that built-in admission gives the pods of the namespace."""
        return self if defaults is NO_POD_DEFAULTS else self._replace(defaults=defaults)

    def find_missing(self, pod: Pod, user: UserInfo | None = None) -> tuple[ImpliedRequest, ...]:
        """Return the implied requests that a pod matches and lacks; without a `user` no exemption applies."""
        spec = pod.spec
        if not self.requests or spec is None or not spec.containers or _is_mirror(pod):
            return ()
        asked = _list_asked(spec)
        missing: dict[str, ImpliedRequest] = {}
        for request in self.requests:
            if request.resource not in asked and _matches(request, pod, spec, user):
                missing.setdefault(request.resource, request)
        return tuple(missing.values())

    def complete(self, pod: P) -> P:
        pod = self.defaults.complete(pod)
        missing = self.find_missing(pod)
        return add_requests(pod, missing) if missing else pod

    def complete_views(self, pod_views: Sequence[PodView]) -> Sequence[PodView]:
        if not self.requests and self.defaults is NO_POD_DEFAULTS:
            return pod_views
        return [self._complete_view(view) if view.is_template else view for view in pod_views]

    def _complete_view(self, view: PodView) -> PodView:
        settled = view if self.defaults is NO_POD_DEFAULTS else view.settle_group(self.defaults.version)
        return msgspec.structs.replace(settled, pod=self.complete(settled.pod))

    def describe_unknown(self, namespace: str) -> tuple[str, ...]:
        """Return a message for each implied request that was not evaluated."""
        return tuple(
            f"implied request {name} was not evaluated: it selects namespaces by label, and the labels of namespace "
            f"{namespace} are unknown here"
            for name in self.unknown
        )


NO_IMPLIED = ImpliedRequests()


class ImpliedIndex:
    """The implied requests of a policy set by namespace; `needs_labels` is true if one selects by labels."""

    def __init__(self, policies: PolicySet) -> None:
        self._requests = policies.implied_requests
        self.needs_labels = any(
            request.match.namespaces and request.match.namespaces.selector for request in policies.implied_requests
        )
        self._select = lru_cache(maxsize=_MAX_CACHED_NAMESPACES)(self._select_uncached)

    def select(self, namespace: str, labels: Mapping[str, str] | None) -> ImpliedRequests:
        """Return the implied requests in a namespace with these labels, None if they are unknown."""
        if not self._requests or not namespace:
            return NO_IMPLIED
        return self._select(namespace, frozenset(labels.items()) if labels is not None and self.needs_labels else None)

    def _select_uncached(self, namespace: str, labels: frozenset[tuple[str, str]] | None) -> ImpliedRequests:
        labels_by_key = dict(labels) if labels is not None else None
        selected: list[ImpliedRequest] = []
        unknown: list[str] = []
        for request in self._requests:
            selector = request.match.namespaces
            is_selected = True if selector is None else matches_namespace(selector, namespace, labels_by_key)
            if is_selected is None:
                unknown.append(request.name)
            elif is_selected:
                selected.append(request)
        return ImpliedRequests(tuple(selected), tuple(unknown))


def _is_mirror(pod: Pod) -> bool:
    annotations = pod.metadata.annotations if pod.metadata is not None else None
    return annotations is not None and MIRROR_ANNOTATION in annotations


def _list_asked(spec: PodSpec) -> set[str]:
    """Return the names of all resources that a pod names anywhere."""
    asked = set(spec.overhead or ())
    containers = (*(spec.containers or ()), *(spec.init_containers or ()), *(spec.ephemeral_containers or ()))
    for resources in (spec.resources, *(container.resources for container in containers)):
        if resources is not None:
            asked.update(resources.requests or (), resources.limits or ())
    return asked


def _matches(implied: ImpliedRequest, pod: Pod, spec: PodSpec, user: UserInfo | None) -> bool:
    if implied.unless.host_network and spec.host_network:
        return False
    match = implied.match
    if user is not None and matches_subjects(match.exempt, user.name, user.groups):
        return False
    labels = (pod.metadata.labels if pod.metadata is not None else None) or _NO_LABELS
    return match.object_selector is None or matches_labels(match.object_selector, labels)


def _list_amounts(missing: Iterable[ImpliedRequest]) -> ResourceList:
    return {request.resource: msgspec.Raw(b'"%d"' % request.per_pod.value()) for request in missing}


def add_requests(pod: P, missing: Iterable[ImpliedRequest]) -> P:
    """Return a pod with these requests and limits in its first container."""
    spec = pod.spec
    assert spec is not None  # noqa: S101  # something is missing in it
    assert spec.containers  # noqa: S101  # likewise
    first, *others = spec.containers
    amounts, resources = _list_amounts(missing), first.resources or ResourceRequirements()
    resources = msgspec.structs.replace(
        resources, requests={**(resources.requests or {}), **amounts}, limits={**(resources.limits or {}), **amounts}
    )
    containers: list[Container] = [msgspec.structs.replace(first, resources=resources), *others]
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(spec, containers=containers))


def create_request_patch(pod: Pod, missing: Iterable[ImpliedRequest]) -> tuple[PatchOperation, ...]:
    """Return the operations that add requests and limits to the first container of a pod, as `add_requests` does."""
    assert pod.spec is not None  # noqa: S101  # something is missing in it
    assert pod.spec.containers  # noqa: S101  # likewise
    pointer, amounts = "/spec/containers/0/resources", _list_amounts(missing)
    resources = pod.spec.containers[0].resources
    if resources is None:
        return ({"op": "add", "path": pointer, "value": {"requests": amounts, "limits": amounts}},)
    operations: list[PatchOperation] = []
    for field, present in (("requests", resources.requests), ("limits", resources.limits)):
        if present:
            operations += [
                {"op": "add", "path": f"{pointer}/{field}/{name.replace('/', '~1')}", "value": amount}
                for name, amount in amounts.items()
            ]
        else:
            operations.append({"op": "add", "path": f"{pointer}/{field}", "value": amounts})
    return tuple(operations)


def describe_amount(implied: ImpliedRequest) -> str:
    """Return amount, resource and name, as an audit annotation has them."""
    return f"{implied.resource}={implied.per_pod.value()} ({implied.name})"


def create_missing_verdict(missing: Iterable[ImpliedRequest], *, is_stored: bool = False) -> Verdict:
    """Return the verdict on a pod that lacks these requests after the mutating phase, or that `is_stored` without."""
    reason = "it is older than this, " if is_stored else ""
    by_enforcement: dict[Enforcement, list[Problem]] = {enforcement: [] for enforcement in Enforcement}
    for request in missing:
        amount = request.per_pod.value()
        text = (
            f"the pod does not request {request.resource}, of which every such pod uses {amount}: {reason}the mutating "
            "webhook has not been called, or another webhook has removed the request; write request and limit "
            f"{request.resource}: {amount}, or 0 if the pod needs none"
        )
        by_enforcement[request.enforcement].append(
            Problem(_CONTAINER_FIELD, IMPLIED_MISSING, Reason.REQUIRED, text, "", "", request.name, POLICY_KIND)
        )
    return Verdict(
        tuple(by_enforcement[Enforcement.DENY]),
        tuple(by_enforcement[Enforcement.WARN]),
        tuple(by_enforcement[Enforcement.AUDIT]),
    )


def find_implied_for_pods(implied: ImpliedRequests, pod_views: Iterable[PodView]) -> tuple[Problem, ...]:
    """Return a remark for each request that a pod gets, or those of a template; all of them are as written."""
    return tuple(
        Problem(
            pod_view.locate(_CONTAINER_FIELD),
            IMPLIED_FOR_PODS,
            Reason.REQUIRED,
            _describe_added(request, is_template=pod_view.is_template),
            rule=request.name,
            policy_kind=POLICY_KIND,
        )
        for pod_view in pod_views
        for request in implied.find_missing(pod_view.pod)
    )


def _describe_added(implied: ImpliedRequest, *, is_template: bool) -> str:
    added = f"request and limit {implied.per_pod.value()} of {implied.resource}"
    return f"each pod gets {added}; the template stays as it is" if is_template else f"the pod gets {added}"


def creates_pod(request: AdmissionRequest) -> bool:
    """Return whether a request creates a pod."""
    return (request.group, request.kind, request.subresource) == ("", "Pod", "") and request.old_object is None
