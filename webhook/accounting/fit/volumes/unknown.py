"""What of a pod's volumes is not judged."""

from collections.abc import Iterator

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.fit.incoming import IncomingPod
from webhook.accounting.fit.volumes.built_in import find_migrated_driver, has_migrated_volume
from webhook.accounting.fit.volumes.claims import list_claim_refs


def find_unmodelled_volumes(pod: IncomingPod, cluster: Cluster) -> Iterator[str]:
    """What the answer leaves open, each with the reason."""
    if cluster.storage is None:
        if list_claim_refs(pod) or any(find_migrated_driver(each) for each in pod.spec.volumes or ()):
            yield "volumes: claims, volumes and storage classes of this cluster are not known"
    elif has_migrated_volume(pod, cluster.storage):
        yield "volumes: where a volume built into Kubernetes is reached once its driver serves it is not modelled"
