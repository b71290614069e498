"""Whether no node can ever run a pod as it is: a question about nodes alone, whoever is on them."""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.fit.answer import open_questions, too_little
from webhook.accounting.fit.filtering import filtered
from webhook.accounting.fit.impossible import impossible
from webhook.accounting.fit.incoming import Incoming
from webhook.accounting.fit.sentence import sentence
from webhook.objects.scheduling import SchedulingPod, SchedulingPodSpec


@dataclass(frozen=True, slots=True)
class Never:
    """Why not: `largest` is the most that any node has of what no node has enough of, `sentence` the scheduler's."""

    largest: Mapping[str, int]
    sentence: str


def never(incoming: Incoming, cluster: Cluster) -> Never | None:
    """Why no node can ever run a pod; None where one could, where there are no nodes, or where that is not known."""
    places = cluster.nodes.get_indices()
    if not len(places) or not impossible(incoming, cluster, places).all() or any(open_questions(incoming, cluster)):
        return None
    return Never(too_little(incoming, cluster), sentence(filtered(incoming, cluster)))


def ranked(pod: SchedulingPod) -> SchedulingPod:
    """The pod with a priority, which is no matter to nodes, where it has none yet."""
    spec = pod.spec or SchedulingPodSpec()
    if spec.priority is not None:
        return pod
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(spec, priority=0))
