"""Effective requests and limits of pods, their explanation in one line, and non-zero requests.

The effective request of a pod is the amount that it needs at its peak. Source: PodRequests and PodLimits in
component-helpers resource/helpers.go, v1.36. This computation is part of the Kubernetes API; scheduler, kubelet and
quota all use it.

`explain_request` writes the arithmetic of one resource as a line that a person can check:

`nvidia.com/gpu = max(containers 1 + 2, init step "warm" 4) + overhead 0 = 4`

A pod that is being resized has requested, allocated and actual amounts. Source: determineEffectiveRequests,
determineEffectiveLimits and PodRequests in component-helpers resource/helpers.go, v1.36; KEP-1287.

The non-zero requests compare nodes in scores: a container that requests no cpu or no memory counts as a small one.
Source: getNonMissingContainerRequests and CalculateResource in pkg/scheduler/framework/types.go, pod_resources.go in
pkg/scheduler/util, v1.36. They neither reserve nor deny anything.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from tallygate.accounting import pod_resources
from tallygate.accounting.amounts import Amounts, round_up_to_unit
from tallygate.accounting.kubernetes_versions.switches import Switch
from tallygate.accounting.kubernetes_versions.version import KubernetesVersion
from tallygate.accounting.quantity import Quantity
from tallygate.objects.core import ContainerStatus, Pod, PodSpec, PodStatus

_ZERO = Quantity.from_int(0)


class ResizeView(StrEnum):
    """The way in which a reader counts a pod that is being resized.

    SPEC counts the requested amounts. QUOTA counts the largest of the requested, allocated and actual amounts of each
    container. SCHEDULER does the same for the pod level too, up to 1.36 (`resized_requests` is that of 1.37). Both
    leave out the requested amounts if the node reports the resize as infeasible. CHARGED is the charge of a cap: the
    largest of all three, of ordinary init containers too (1.36 and later resize them), infeasible or not. A kubelet
    tries an infeasible resize again when it starts, and grants it without a request that a cap could decide on
    (HandlePodAdditions in pkg/kubelet/kubelet.go, v1.37).
    """

    SPEC = "spec"
    QUOTA = "quota"
    SCHEDULER = "scheduler"
    CHARGED = "charged"


def apply_status(
    resources: pod_resources.PodResources, status: PodStatus | None, view: ResizeView
) -> pod_resources.PodResources:
    """Return the resources of a pod with its status applied.

    Raises:
        QuantityError: if a quantity in the status is invalid.
    """
    if status is None or view is ResizeView.SPEC:
        return resources
    statuses = {
        status_of_container.name: status_of_container
        for status_of_container in (
            *_list_statuses(status.container_statuses),
            *_list_statuses(status.init_container_statuses),
        )
    }
    if not any(container_status.resources for container_status in statuses.values()) and status.resources is None:
        return resources
    is_charged = view is ResizeView.CHARGED
    without_spec = not is_charged and is_infeasible(status)

    def apply(containers: Iterable[pod_resources.ContainerResources]) -> tuple[pod_resources.ContainerResources, ...]:
        return tuple(
            [
                _apply_container_status(container, statuses, is_infeasible=without_spec)
                if is_charged or container.role is not pod_resources.ContainerRole.INIT
                else container
                for container in containers
            ]
        )

    resized = resources._replace(containers=apply(resources.containers), init=apply(resources.init))
    return resized if view is ResizeView.QUOTA else _apply_pod_status(resized, status, is_infeasible=without_spec)


def _list_statuses(statuses: list[ContainerStatus] | None) -> Iterable[ContainerStatus]:
    return statuses or ()


def is_infeasible(status: PodStatus) -> bool:
    """Return whether the node can never grant the resize.

    Source: IsPodResizeInfeasible; the first condition of the type decides.
    """
    for condition in status.conditions or ():
        if condition.type == "PodResizePending":
            return condition.reason == "Infeasible"
    return False


def _apply_container_status(
    container: pod_resources.ContainerResources, statuses: Mapping[str | None, ContainerStatus], *, is_infeasible: bool
) -> pod_resources.ContainerResources:
    status = statuses.get(container.name)
    if status is None or status.resources is None:
        return container
    actual, allocated = status.resources, pod_resources.parse_resource_list(status.allocated_resources)
    requested = (
        (pod_resources.NO_QUANTITIES, pod_resources.NO_QUANTITIES)
        if is_infeasible
        else (container.requests, container.limits)
    )
    requests = _compute_maximum(requested[0], pod_resources.parse_resource_list(actual.requests), allocated)
    return container._replace(
        requests=requests, limits=_compute_maximum(requested[1], pod_resources.parse_resource_list(actual.limits))
    )


def _apply_pod_status(
    resources: pod_resources.PodResources, status: PodStatus, *, is_infeasible: bool
) -> pod_resources.PodResources:
    """Return the resources with the status of the pod level applied.

    Only names of the spec count; a name for which no list has an amount is zero.
    """
    actual = status.resources
    if actual is None:
        return resources
    requested = (
        (pod_resources.NO_QUANTITIES, pod_resources.NO_QUANTITIES)
        if is_infeasible
        else (resources.requests, resources.limits)
    )
    requests = _compute_maximum(
        requested[0],
        pod_resources.parse_resource_list(actual.requests),
        pod_resources.parse_resource_list(status.allocated_resources),
    )
    if (
        is_infeasible and actual.limits is None
    ):  # Kubernetes ignores absent limits here, and keeps the limits of the spec
        return resources._replace(requests=_select_requested(resources.requests, requests))
    limits = _compute_maximum(requested[1], pod_resources.parse_resource_list(actual.limits))
    return resources._replace(
        requests=_select_requested(resources.requests, requests), limits=_select_requested(resources.limits, limits)
    )


def _select_requested(
    requested: pod_resources.Quantities, quantities: pod_resources.Quantities
) -> pod_resources.Quantities:
    return {name: quantities.get(name, _ZERO) for name in requested if pod_resources.is_pod_level_resource(name)}


def _compute_maximum(*lists: pod_resources.Quantities) -> pod_resources.Quantities:
    maximum: dict[str, Quantity] = {}
    for quantities in lists:
        pod_resources.update_maximum(maximum, quantities)
    return maximum


_DEFAULT_REQUESTS: pod_resources.Quantities = {
    "cpu": Quantity.from_json(b'"100m"'),
    "memory": Quantity.from_json(b'"200Mi"'),
}


class RequestTerm(NamedTuple):
    """One figure in the sum of a resource.

    `container` is the name of the container, empty for the pod level and overhead. `sidecars` is the amount that
    sidecars use during an init step. `is_counted` is False if a larger figure exceeds the term or the pod level
    replaces it.
    """

    container: str
    role: pod_resources.ContainerRole
    quantity: Quantity
    sidecars: Quantity
    is_counted: bool


class EffectiveRequest:
    """The effective request, or effective limits, of a pod by resource.

    `quantities` are exact and print as Kubernetes prints them.
    """

    __slots__ = ("_is_limits", "_resources", "quantities")

    def __init__(self, resources: pod_resources.PodResources, *, limits: bool) -> None:
        self._resources = resources
        self._is_limits = limits
        self.quantities: pod_resources.Quantities = _add_overhead(
            resources, aggregate_with_pod_level(resources, limits=limits), limits=limits
        )

    @property
    def amounts(self) -> Amounts:
        """The scheduler's integers (milli-cpu, else whole units), rounded up once after summing."""
        return Amounts({name: round_up_to_unit(name, quantity) for name, quantity in self.quantities.items()})

    def list_terms(self, name: str) -> tuple[RequestTerm, ...]:
        """Return every figure in the sum of a resource: containers, sidecars, init steps, pod level, overhead."""
        resources, limits = self._resources, self._is_limits
        is_replaced = pod_resources.is_pod_level_resource(name) and name in (
            resources.limits if limits else resources.requests
        )
        running_terms = _list_running_terms(resources, name, limits=limits)
        init_terms = _list_init_terms(resources, name, limits=limits)
        total = sum((term.quantity for term in running_terms), _ZERO)
        peak = max((term.quantity + term.sidecars for term in init_terms), default=_ZERO)
        is_step = peak > total
        return (
            *[term._replace(is_counted=not is_replaced and not is_step) for term in running_terms],
            *[
                term._replace(is_counted=not is_replaced and is_step and term.quantity + term.sidecars == peak)
                for term in init_terms
            ],
            *self._list_pod_level_term(name, is_replaced=is_replaced),
            *self._list_overhead_term(name),
        )

    def _list_pod_level_term(self, name: str, *, is_replaced: bool) -> tuple[RequestTerm, ...]:
        quantities = self._resources.limits if self._is_limits else self._resources.requests
        return (
            (RequestTerm("", pod_resources.ContainerRole.POD, quantities[name], _ZERO, is_counted=True),)
            if is_replaced
            else ()
        )

    def _list_overhead_term(self, name: str) -> tuple[RequestTerm, ...]:
        if not self._resources.overhead:
            return ()
        overhead = self._resources.overhead.get(name, _ZERO)
        is_counted = not self._is_limits or bool(aggregate_with_pod_level(self._resources, limits=True).get(name))
        return (RequestTerm("", pod_resources.ContainerRole.OVERHEAD, overhead, _ZERO, is_counted=is_counted),)


def compute_pod_requests(spec: PodSpec, status: PodStatus | None = None) -> EffectiveRequest:
    """Return the effective requests of a pod with this spec; missing requests are taken from limits first.

    With a status the result is the scheduler's view of a pod on a node: a container that is being resized counts with
    the largest of its requested, allocated and actual amounts.

    Raises:
        QuantityError: if a quantity of the pod is invalid.
    """
    return compute_requests(apply_status(pod_resources.parse_pod_resources(spec), status, ResizeView.SCHEDULER))


def compute_pod_limits(spec: PodSpec, status: PodStatus | None = None) -> EffectiveRequest:
    """Return the effective limits of a pod with this spec; a container without a limit adds nothing.

    Raises:
        QuantityError: if a quantity of the pod is invalid.
    """
    return compute_limits(apply_status(pod_resources.parse_pod_resources(spec), status, ResizeView.SCHEDULER))


def compute_requests(resources: pod_resources.PodResources) -> EffectiveRequest:
    """Return the effective requests of parsed resources."""
    return EffectiveRequest(resources, limits=False)


def compute_limits(resources: pod_resources.PodResources) -> EffectiveRequest:
    """Return the effective limits of parsed resources. Overhead is added only to limits that are not zero."""
    return EffectiveRequest(resources, limits=True)


def explain_request(request: EffectiveRequest, name: str) -> str:
    """Return the sum of one resource as a line: added, exceeded and replaced figures, and the result."""
    terms = request.list_terms(name)
    by_role = {role: [term for term in terms if term.role is role] for role in pod_resources.ContainerRole}
    parts = [
        _format_running_terms(
            by_role[pod_resources.ContainerRole.CONTAINER], by_role[pod_resources.ContainerRole.SIDECAR]
        ),
        *map(_format_init_step, by_role[pod_resources.ContainerRole.INIT]),
    ]
    parts = [part for part in parts if part]
    line = f"max({', '.join(parts)})" if len(parts) > 1 else "".join(parts) or "containers 0"
    for term in by_role[pod_resources.ContainerRole.POD]:
        line = f"pod level {term.quantity} (in place of {line})"
    for term in by_role[pod_resources.ContainerRole.OVERHEAD]:
        line += (
            f" + overhead {term.quantity}" if term.is_counted else f" (overhead {term.quantity} not added: no limit)"
        )
    return f"{name} = {line} = {request.quantities.get(name, _ZERO)}"


def compute_non_zero_requests(pod: Pod) -> Amounts:
    """Return the cpu (milli) and memory (bytes) with which a pod counts on its node, or would count there.

    Raises:
        QuantityError: if a quantity of the pod is invalid.
    """
    resources = apply_status(pod_resources.parse_pod_resources(pod.spec or PodSpec()), pod.status, ResizeView.SCHEDULER)
    defaults = select_default_requests(resources, compute_requests(resources).quantities)
    amounts = compute_requests(_fill_in_pod_defaults(resources, defaults)).amounts
    return Amounts({name: amounts.get(name, 0) for name in _DEFAULT_REQUESTS})


def select_default_requests(
    resources: pod_resources.PodResources, requested: pod_resources.Quantities
) -> pod_resources.Quantities:
    """Return the non-zero requests that containers get: with a request at pod level, none that the pod requests."""
    if not resources.requests:
        return _DEFAULT_REQUESTS
    return {name: default for name, default in _DEFAULT_REQUESTS.items() if name not in requested}


def compute_incoming_non_zero_requests(pod: Pod, version: KubernetesVersion) -> Amounts:
    """Return the amounts with which an incoming pod would count on any node, by resource.

    Before SCORES_POD_LEVEL the score of NodeResourcesFit ignores requests at pod level: its scorers are made without
    that feature (nodeResourceStrategyTypeMap in plugins/noderesources/fit.go, v1.36).

    Raises:
        QuantityError: if a quantity of the pod is invalid.
    """
    resources = pod_resources.parse_pod_resources(pod.spec or PodSpec())
    if not version.has(Switch.SCORES_POD_LEVEL):
        resources = resources._replace(requests=pod_resources.NO_QUANTITIES, limits=pod_resources.NO_QUANTITIES)
    return compute_requests(_fill_in_pod_defaults(resources, _DEFAULT_REQUESTS)).amounts


def aggregate_with_pod_level(resources: pod_resources.PodResources, *, limits: bool) -> dict[str, Quantity]:
    """Return the sum of containers and init steps; the pod level replaces its cpu, memory and hugepages."""
    total = pod_resources.aggregate_containers(resources.containers, resources.init, limits=limits)
    for name, quantity in (resources.limits if limits else resources.requests).items():
        if pod_resources.is_pod_level_resource(name):
            total[name] = quantity
    return total


def _add_overhead(
    resources: pod_resources.PodResources, total: dict[str, Quantity], *, limits: bool
) -> pod_resources.Quantities:
    if resources.overhead:
        pod_resources.add_quantities(
            total,
            {name: quantity for name, quantity in resources.overhead.items() if total.get(name)}
            if limits
            else resources.overhead,
        )
    return total


def _list_running_terms(resources: pod_resources.PodResources, name: str, *, limits: bool) -> list[RequestTerm]:
    containers = (
        *resources.containers,
        *(step for step in resources.init if step.role is pod_resources.ContainerRole.SIDECAR),
    )
    container_quantities = [(container, container.limits if limits else container.requests) for container in containers]
    return [
        RequestTerm(counted_container.name, counted_container.role, quantities[name], _ZERO, is_counted=True)
        for counted_container, quantities in container_quantities
        if name in quantities
    ]


def _list_init_terms(resources: pod_resources.PodResources, name: str, *, limits: bool) -> list[RequestTerm]:
    """Return the terms of init steps, each with the sidecars that are declared before it."""
    terms: list[RequestTerm] = []
    sidecars = _ZERO
    for container in resources.init:
        quantity = (container.limits if limits else container.requests).get(name)
        if container.role is pod_resources.ContainerRole.SIDECAR:
            sidecars += quantity or _ZERO
        elif quantity is not None:
            terms.append(RequestTerm(container.name, container.role, quantity, sidecars, is_counted=True))
    return terms


def _format_running_terms(containers: Sequence[RequestTerm], sidecars: Sequence[RequestTerm]) -> str:
    """Return the sum of the containers that run together: `containers 1 + 2 + sidecars 1`."""
    role_terms = (("container", containers), ("sidecar", sidecars))
    return " + ".join(f"{noun}{'s' * (len(terms) > 1)} {_format_sum(terms)}" for noun, terms in role_terms if terms)


def _format_sum(terms: Sequence[RequestTerm]) -> str:
    return " + ".join(str(term.quantity) for term in terms)


def _format_init_step(step: RequestTerm) -> str:
    """Return one init step, as in `init step "warm" 4`, and the sidecars that run during it."""
    sidecars = f" + sidecars {step.sidecars} beneath" if step.sidecars else ""
    return f'init step "{step.container}" {step.quantity}{sidecars}'


def _fill_in_pod_defaults(
    resources: pod_resources.PodResources, defaults: pod_resources.Quantities
) -> pod_resources.PodResources:
    return resources._replace(
        containers=tuple([_fill_in_container_defaults(container, defaults) for container in resources.containers]),
        init=tuple([_fill_in_container_defaults(step, defaults) for step in resources.init]),
    )


def _fill_in_container_defaults(
    container: pod_resources.ContainerResources, defaults: pod_resources.Quantities
) -> pod_resources.ContainerResources:
    return container._replace(requests={**defaults, **container.requests})
