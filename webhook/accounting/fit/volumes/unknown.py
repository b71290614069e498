"""What of a pod's volumes is not judged."""

from collections.abc import Iterator

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.fit.incoming import Incoming
from webhook.accounting.fit.volumes.built_in import driver_of, is_moved
from webhook.accounting.fit.volumes.claims import named


def unknown(pod: Incoming, cluster: Cluster) -> Iterator[str]:
    """What the answer leaves open, each with the reason."""
    if cluster.storage is None:
        if named(pod) or any(driver_of(each) for each in pod.spec.volumes or ()):
            yield "volumes: claims, volumes and storage classes of this cluster are not known"
    elif is_moved(pod, cluster.storage):
        yield "volumes: where a volume built into Kubernetes is reached once its driver serves it is not modelled"
