"""Whether no node can ever run a pod as it is: a question about nodes alone, whoever is on them."""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.fit.answer import find_largest_allocatable, find_unmodelled
from webhook.accounting.fit.filtering import run_filters
from webhook.accounting.fit.impossible import mask_unresolvable
from webhook.accounting.fit.incoming import IncomingPod
from webhook.accounting.fit.sentence import format_fit_error
from webhook.objects.scheduling import SchedulingPod, SchedulingPodSpec


@dataclass(frozen=True, slots=True)
class NeverPrediction:
    """Why not: `largest` is the most that any node has of what no node has enough of, `sentence` the scheduler's."""

    largest_allocatable: Mapping[str, int]
    message: str


def predict_never(incoming: IncomingPod, cluster: Cluster) -> NeverPrediction | None:
    """Why no node can ever run a pod; None where one could, where there are no nodes, or where that is not known."""
    nodes = cluster.nodes.get_indices()
    if (
        not len(nodes)
        or not mask_unresolvable(incoming, cluster, nodes).all()
        or any(find_unmodelled(incoming, cluster))
    ):
        return None
    return NeverPrediction(
        find_largest_allocatable(incoming, cluster), format_fit_error(run_filters(incoming, cluster))
    )


def with_default_priority(pod: SchedulingPod) -> SchedulingPod:
    """The pod with a priority, which is no matter to nodes, where it has none yet."""
    spec = pod.spec or SchedulingPodSpec()
    if spec.priority is not None:
        return pod
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(spec, priority=0))
