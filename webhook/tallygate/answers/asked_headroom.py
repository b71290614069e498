"""The numbers of further copies of pods for which the nodes have room, of each pod by itself: those of `headroom`.

The command computes them over files and a cluster that it has read. The server of asks does it for objects that are
sent to it, over a live state, which is as before at the end.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.node_pools import merge_shapes
from tallygate.accounting.node_shape import NodeShape
from tallygate.accounting.quantity_parser import QuantityError
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.accounting.scheduling.remaining_capacity import RemainingCapacity, compute_remaining_capacity
from tallygate.answers.asked_manifests import AskContext, AskProgress, list_acting, list_asked_groups, report_version
from tallygate.answers.pods_to_place import (
    DeviceClaimObject,
    PodsInFiles,
    PodsToPlace,
    Progress,
    create_pods_in_files,
)
from tallygate.errors import TallygateError
from tallygate.manifests.kind_manifests import UnreadObject
from tallygate.manifests.manifest_objects import Manifest
from tallygate.policy.model import POLICY_GROUP, PolicySet

MAX_ROWS: Final = 100_000
"""The nodes, shapes and reasons with a number in one answer, of all its pods: a row takes some 50 bytes as JSON."""


class CapacityLimits(NamedTuple):
    """The limits of one answer: a function that is called before each copy, and may raise, and the number of rows."""

    check_time: Callable[[], None] = lambda: None
    max_rows: int | None = None


NO_LIMITS: Final = CapacityLimits()
"""Those of a command over a cluster of its own."""

PodCapacity = tuple[PodsToPlace, RemainingCapacity]
"""A pod, and the remaining capacity for it."""


class PodCapacityError(TallygateError):
    """A pod whose copies cannot be counted; the text names its object."""


class TooManyRowsError(TallygateError):
    """An ask about more pods than one answer has rows for."""


@dataclass(frozen=True, slots=True)
class HeadroomAnswer:
    """The answer about the pods of some objects; `unread`, `not_modelled`, `remarks`, `revision` as in an `Answer`."""

    capacities: tuple[PodCapacity, ...]
    unread: tuple[UnreadObject, ...]
    not_modelled: tuple[str, ...]
    remarks: tuple[str, ...]
    revision: int | None


def compute_capacities(
    in_files: PodsInFiles,
    policies: PolicySet,
    cluster: Cluster,
    progress: Progress,
    limits: CapacityLimits = NO_LIMITS,
) -> list[PodCapacity]:
    """Return the remaining capacity for each pod, with what these policies and the cluster give to it.

    The cluster is unchanged afterwards.

    Raises:
        PodCapacityError: if a pod, or what it refers to, is not as an API server would store it.
        TooManyRowsError: if the capacities have more rows than the limit.
    """
    all_pods = [pods.copy_unscheduled() for pods in in_files.complete(policies, cluster, progress.report)]
    shapes = merge_shapes((*in_files.shapes, *policies.node_shapes), cluster.pools.list_shapes())
    found, rows = list[PodCapacity](), 0
    with in_files.apply_claims(cluster):
        for pods in progress.track("placing copies", all_pods):
            found.append(_compute_capacity(pods, cluster, shapes, limits.check_time))
            rows += _count_rows(found[-1][1])
            if limits.max_rows is not None and rows > limits.max_rows:
                message = f"the answer about the first {len(found)} of {len(all_pods)} pods has {rows} rows of nodes, "
                raise TooManyRowsError(f"{message}and one has at most {limits.max_rows}: ask about fewer pods")
    return found


def _count_rows(capacity: RemainingCapacity) -> int:
    numbers = (capacity.copies_by_node, capacity.limiting_reasons, capacity.new_nodes, capacity.unhealthy)
    return sum(map(len, numbers))


def _compute_capacity(
    pods: PodsToPlace, cluster: Cluster, shapes: Sequence[NodeShape], check_time: Callable[[], None]
) -> PodCapacity:
    resolved = pods.with_default_priority(cluster.priority_classes)
    try:
        pod = IncomingPod.from_pod(resolved.pod, cluster.priority_classes)
        capacity = compute_remaining_capacity(pod, cluster, shapes, check_time)
    except TallygateError as error:
        check_time()  # the error may be that of the time
        advice = "; `tallygate check` says where" if isinstance(error, QuantityError) else ""
        raise PodCapacityError(f"{pods.subject}: {error}{advice}") from error
    return resolved, replace(capacity, unmodelled=(*capacity.unmodelled, *resolved.unmodelled))


def answer_headroom(manifests: Sequence[Manifest], context: AskContext) -> HeadroomAnswer:
    """Return the answer about the pods of these objects; afterwards the state is as it was before.

    Policies among the objects do not act, as within any ask: a WorkloadKind would define pods in objects of a kind
    for which no right of the sender was checked.

    Raises:
        ManifestsError: if an object is one that no API server accepts.
        PodCapacityError: if a pod, or what it refers to, is not as an API server would store it.
        TooManyRowsError: if the answer would have more than 100,000 rows.
        TallygateError: if an object of the state is not as an API server stores it, or what `check_time` raises.
    """
    progress = AskProgress(context.check_time)
    in_files = _read_pods(manifests, context, progress)
    cluster = context.state.require_columns()
    limits = CapacityLimits(context.check_time, MAX_ROWS)
    with cluster.pod_groups.apply(list_asked_groups(manifests, context.namespace)):
        capacities = compute_capacities(in_files, context.policies, cluster, progress, limits)
    report_version(cluster, progress)
    return HeadroomAnswer(
        tuple(capacities),
        in_files.unread,
        tuple(list_acting(manifests)),
        tuple(progress.remarks),
        context.state.find_revision(),
    )


def _read_pods(manifests: Sequence[Manifest], context: AskContext, progress: AskProgress) -> PodsInFiles:
    """Return the pods of the objects, one of each workload; each object is read by itself, while there is time."""
    pods, unread, claims = list[PodsToPlace](), list[UnreadObject](), list[DeviceClaimObject]()
    for manifest in progress.track("", manifests):
        if manifest.group != POLICY_GROUP:
            found = create_pods_in_files([manifest], context.namespace, context.policies, 1, _ignore)
            pods += found.pods
            unread += found.unread
            claims += found.claims
    return PodsInFiles(tuple(pods), tuple(unread), tuple(claims))


def _ignore(_: str) -> None:
    """Ignore the message about an object whose kind is not read: the answer has it."""
