"""How many more pods of the shapes that run in a namespace may start: under its caps, its quotas, and on the nodes.

A shape is what pods have in common that decides it: requests, and the constraints on nodes. The numbers are of one
moment, and of each shape by itself. A cap has room as its line in the report says; the charge of a pod under a cap and
a quota is that of a review.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import nlargest
from operator import itemgetter
from typing import Final, NamedTuple

import msgspec

from tallygate.accounting.amounts import Amounts
from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.node_fit import compute_scheduler_requests
from tallygate.accounting.scheduling.filters import run_filters
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.accounting.scheduling.placement import needs_amounts_only, open_placement_session
from tallygate.accounting.scheduling.prediction import find_unmodelled
from tallygate.accounting.scheduling.remaining_capacity import compute_remaining_capacity
from tallygate.admission.pod_view import PodView, ReplicaCount
from tallygate.answers.usage_report import LedgerUsage
from tallygate.cluster.cluster_state import ClusterState
from tallygate.cluster.consumer_sums import PodOwners
from tallygate.errors import TallygateError
from tallygate.objects.meta import ObjectMeta
from tallygate.objects.scheduling import SchedulingPod, SchedulingPodSpec
from tallygate.review.applied_workload import ForecastPods, ForecastWorkload
from tallygate.review.claim_forecast import find_pod_claims
from tallygate.review.quota_forecast import QuotaForecaster, read_limits

MAX_SHAPES: Final = 10
"""The shapes of one answer, those with the most pods."""

MAX_PLACED: Final = 100
"""The copies that are placed one by one, for pods that depend on each other or need devices."""

_MAX_TEMPLATES: Final = 200  # that are compared for one answer, those with the most pods
_MAX_WORKLOADS: Final = 5
_ENCODER: Final = msgspec.json.Encoder(order="deterministic")


class PartTimes(NamedTuple):
    """The time of a part of an answer.

    `check` is called between two steps, and raises once the answer is too late. `may_go_on` returns whether there is
    time for a step that may be left out.
    """

    check: Callable[[], None] = lambda: None
    may_go_on: Callable[[], bool] = lambda: True


class StartLimit(NamedTuple):
    """The number of further pods under a cap, under a quota, or on the nodes, and the resource that limits it.

    `by` is `cap`, `quota` or `nodes`. Of nodes `is_least` says that more than `copies` were not tried.
    """

    by: str
    name: str
    resource: str
    copies: int
    is_least: bool = False


@dataclass(frozen=True, slots=True)
class StartableShape:
    """A shape of pods that run in the namespace, and how many more may start.

    `requests` are what kube-scheduler counts of one pod. `workloads` are the first ones that have such pods. `limits`
    has one item for each cap and quota that counts them, and one for the nodes; what is not known is in `unknown`.
    """

    pods: int
    requests: Amounts
    workloads: tuple[str, ...]
    limits: tuple[StartLimit, ...]
    unknown: tuple[str, ...] = ()

    @property
    def tightest(self) -> StartLimit | None:
        """The limit under which the fewest may start; None if no limit is known."""
        return min(self.limits, key=lambda limit: limit.copies, default=None)


def list_startable(
    state: ClusterState, namespace: str, ledgers: Sequence[LedgerUsage], times: PartTimes
) -> Iterator[StartableShape]:
    """Yield the shapes of the pods that run in a namespace, with how many more of each may start now.

    `ledgers` are those that count the namespace. Placed copies are taken back, so that the state is as before.
    """
    for pod, count, workloads in _list_shapes(state, namespace):
        times.check()
        limits, unknown = list[StartLimit](), list[str]()
        try:
            workload = _create_workload(state, pod, namespace)
            limits += _list_caps(workload, ledgers)
            limits += _list_quotas(state, workload, namespace)
            most = min((limit.copies for limit in limits), default=MAX_PLACED)
            limits += _count_on_nodes(pod, state.require_columns(), most, times, unknown)
            unknown += [claims.unknown] if (claims := workload.unknown_claims).unknown else []
        except _NotStoredError as error:
            unknown.append(str(error))
        requests = {name: amount for name, amount in compute_scheduler_requests(pod).items() if amount > 0}
        yield StartableShape(count, Amounts(requests), workloads, tuple(limits), tuple(unknown))


class _NotStoredError(TallygateError):
    """A pod that cannot be evaluated."""


def _list_shapes(state: ClusterState, namespace: str) -> list[tuple[SchedulingPod, int, tuple[str, ...]]]:
    """Return a pod of each shape, the number of such pods, and the first workloads, those with the most pods first."""
    owners = PodOwners()
    running = state.pod_templates.list_running(namespace) if state.pod_templates is not None else []
    shapes: dict[bytes, tuple[SchedulingPod, list[int], dict[str, None]]] = {}
    for template, count in nlargest(_MAX_TEMPLATES, running, key=itemgetter(1)):
        pod = template.to_pod()
        _, counts, workloads = shapes.setdefault(_ENCODER.encode(_create_shape(pod)), (pod, [], {}))
        counts.append(count)
        if owner := owners.find_owner(template):
            workloads[owner] = None
    found = [(pod, sum(counts), tuple(workloads)[:_MAX_WORKLOADS]) for pod, counts, workloads in shapes.values()]
    return nlargest(MAX_SHAPES, found, key=itemgetter(1))


def _create_shape(pod: SchedulingPod) -> SchedulingPod:
    """Return what decides how many more of a pod may start: labels too, since caps and other pods select by them."""
    meta, spec = pod.metadata or ObjectMeta(), pod.spec or SchedulingPodSpec()
    labels = {key: value for key, value in (meta.labels or {}).items() if key not in _LABELS_OF_WORKLOADS}
    containers, first = (
        [msgspec.structs.replace(container, name=None) for container in listed or ()] or None
        for listed in (spec.containers, spec.init_containers)
    )
    return SchedulingPod(
        metadata=ObjectMeta(labels=labels or None, annotations=meta.annotations),
        spec=msgspec.structs.replace(spec, containers=containers, init_containers=first),
    )


_LABELS_OF_WORKLOADS: Final = frozenset(
    {
        *("pod-template-hash", "controller-revision-hash", "pod-template-generation"),
        *("controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"),
    }
)
"""The labels that controllers add to the pods of each object or version."""


def _create_workload(state: ClusterState, pod: SchedulingPod, namespace: str) -> ForecastWorkload:
    """Return one pod with the claims that templates make for it, as a review charges it."""
    claims = find_pod_claims(pod, namespace, state.claim_templates)
    pods = ForecastPods(PodView("", pod, is_template=False), ReplicaCount(1, "pods"), claims=claims)
    return ForecastWorkload((pods,), state.find_pod_defaults(namespace))


def _list_caps(workload: ForecastWorkload, ledgers: Iterable[LedgerUsage]) -> Iterator[StartLimit]:
    """Yield the number of further pods under each cap that counts them and has a hard limit."""
    for chosen, lines in ledgers:
        try:
            charge = workload.sum_charges(chosen.active_cap, chosen.active_cap.compute_charge)
        except TallygateError as error:
            raise _NotStoredError(str(error)) from error
        free = Amounts({line.name: line.free for line in lines if line.free is not None})
        yield from _divide("cap", chosen.active_cap.definition.name, free, charge)


def _list_quotas(state: ClusterState, workload: ForecastWorkload, namespace: str) -> Iterator[StartLimit]:
    """Yield the number of further pods under each ResourceQuota that surely counts them."""
    forecaster = QuotaForecaster(state.quotas, state.device_classes.get_resources_by_class, lambda _: True)
    for quota in forecaster.list_quotas(namespace):
        try:
            hard, used = read_limits(quota)
            increase = forecaster.compute_increase(workload, [0], quota)
        except TallygateError:
            continue  # no API server stores such a quota
        free = Amounts({name: max(0, limit - used.get(name, 0)) for name, limit in hard.items()})
        yield from _divide("quota", (quota.metadata.name if quota.metadata else None) or "", free, increase)


def _divide(by: str, name: str, free: Amounts, charge: Amounts) -> Iterator[StartLimit]:
    """Yield the tightest of the amounts that a pod is charged; nothing if no limited one is charged."""
    counts = [(free[key] // amount, key) for key, amount in charge.items() if amount > 0 and key in free]
    if counts:
        copies, resource = min(counts)
        yield StartLimit(by, name, resource, copies)


def _count_on_nodes(
    pod: SchedulingPod, cluster: Cluster, most: int, times: PartTimes, unknown: list[str]
) -> Iterator[StartLimit]:
    """Yield the number of further pods that fit on the nodes, as `tallygate headroom` has it; add what is not known.

    Pods that depend on each other or need devices are placed one by one, up to `most` as long as there is time.
    """
    try:
        incoming = IncomingPod.from_pod(pod, cluster.priority_classes)
        questions = list(find_unmodelled(incoming, cluster))
        if questions:
            unknown += questions
        elif needs_amounts_only(incoming, cluster):
            yield StartLimit("nodes", "", "", compute_remaining_capacity(incoming, cluster).total)
        else:
            yield _place(incoming, cluster, max(1, min(most, MAX_PLACED)), times)
    except TallygateError as error:
        raise _NotStoredError(str(error)) from error


def _place(pod: IncomingPod, cluster: Cluster, count: int, times: PartTimes) -> StartLimit:
    """Return the number of copies that have a node when they are placed one by one, up to `count`; they are removed."""

    def check() -> None:
        times.check()
        if not times.may_go_on():
            raise _NoTimeError

    with open_placement_session(cluster, check_time=check) as session:
        try:
            is_least = session.place(pod, count, run_filters(pod, cluster)).unplaced is None
        except _NoTimeError:
            is_least = True
        return StartLimit("nodes", "", "", len(session.placed_pods), is_least)


class _NoTimeError(TallygateError):
    """The end of the time for copies."""
