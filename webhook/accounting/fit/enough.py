"""Whether there is room for copies of a pod, as far as that can be told without placing them."""

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.fit.filtering import filtered
from webhook.accounting.fit.incoming import Incoming
from webhook.accounting.fit.room import copies_on, is_by_itself
from webhook.objects.scheduling import PlacedPod


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
