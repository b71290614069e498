"""Whether there is room for copies of a pod, or room could be made, as far as that is soon told."""

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.fit.filtering import filtered
from webhook.accounting.fit.impossible import impossible
from webhook.accounting.fit.incoming import Incoming
from webhook.accounting.fit.room import copies_on, is_by_itself
from webhook.objects.scheduling import PlacedPod

_NEVER = "Never"


def is_enough(pod: PlacedPod, cluster: Cluster, copies: int) -> bool:
    """Whether so many copies surely have room now; otherwise they have to be placed to know.

    Raises:
        QuantityError: a quantity that the pod asks for is none.
    """
    incoming = Incoming.of(pod)
    fitting = filtered(incoming, cluster).fitting
    if copies == 1:
        return bool(len(fitting))
    return is_by_itself(incoming) and int(copies_on(incoming, cluster, fitting).sum()) >= copies


def may_push_others(pod: PlacedPod, cluster: Cluster) -> bool:
    """Whether somebody could be asked to leave for a pod: one of lower priority, on a node where it could ever run.

    Who exactly is asked takes the scheduler long to find, and can be told by `preemption` only.

    Raises:
        QuantityError: a quantity that the pod asks for is none.
    """
    incoming = Incoming.of(pod)
    if incoming.spec.preemption_policy == _NEVER:
        return False
    places = cluster.nodes.places()
    possible = set(places[~impossible(incoming, cluster, places)].tolist())
    lower = (
        shape
        for namespace in cluster.labelled.namespaces()
        for shape in cluster.labelled.within(namespace)
        if shape.priority < incoming.priority
    )
    return any(not possible.isdisjoint(shape.on) for shape in lower)
