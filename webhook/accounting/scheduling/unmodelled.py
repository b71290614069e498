"""The features of a pod or cluster that the scheduling model does not evaluate: devices, volumes, namespace labels."""

from collections.abc import Iterator

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.cluster.inter_pod_terms import AffinityTerm
from webhook.accounting.scheduling.incoming_pod import IncomingPod
from webhook.accounting.scheduling.plugins.node_volume_limits import find_migrated_driver, has_migrated_volume
from webhook.accounting.scheduling.plugins.pod_claims import list_claim_refs

_MAX_LISTED = 3

_DEFAULT_SCHEDULER = "default-scheduler"


def find_unmodelled(pod: IncomingPod, cluster: Cluster) -> Iterator[str]:
    """Yield a message for each feature of a pod that is not modelled."""
    yield from find_unmodelled_volumes(pod, cluster)
    yield from find_unmodelled_namespaces(pod, cluster)
    if pod.spec.resource_claims:
        yield "resource claims: which devices are free for them is not modelled"
    for name in pod.requests:
        if (device_class := cluster.device_classes.find_class(name)) is not None:
            yield f"{name}: which devices of class {device_class} are free for it is not modelled"
    if (pod.spec.scheduler_name or _DEFAULT_SCHEDULER) != _DEFAULT_SCHEDULER:
        yield f"scheduler {pod.spec.scheduler_name}: its rules are not known; those of the default one were asked"


def find_unmodelled_volumes(pod: IncomingPod, cluster: Cluster) -> Iterator[str]:
    """Yield a message for each feature of a pod's volumes that is not modelled."""
    if cluster.storage is None:
        if list_claim_refs(pod) or any(find_migrated_driver(each) for each in pod.spec.volumes or ()):
            yield "volumes: claims, volumes and storage classes of this cluster are not known"
    elif has_migrated_volume(pod, cluster.storage):
        yield "volumes: where a volume built into Kubernetes is reached once its driver serves it is not modelled"


def find_unmodelled_namespaces(pod: IncomingPod, cluster: Cluster) -> Iterator[str]:
    """Yield a message if a term selects namespaces by label and the labels of some are unknown."""
    unknown_namespaces = sorted(_find_referenced_namespaces(pod, cluster) - cluster.namespaces.keys())
    if unknown_namespaces:
        more = f" and {len(unknown_namespaces) - _MAX_LISTED} more" if len(unknown_namespaces) > _MAX_LISTED else ""
        yield f"affinity: the labels of namespaces are not known: {', '.join(unknown_namespaces[:_MAX_LISTED])}{more}"


def _find_referenced_namespaces(pod: IncomingPod, cluster: Cluster) -> set[str]:
    """Return the namespaces whose labels decide the terms of the pod, or of pods on nodes."""
    namespaces: set[str] = set()
    if any(map(_has_namespace_selector, (*pod.inter_pod.affinity, *pod.inter_pod.anti_affinity))):
        namespaces |= cluster.label_index.namespaces() | {pod.namespace}
    existing_terms = cluster.anti_affinity_index.find_candidate_terms(pod.namespace, pod.labels)
    if any(_has_namespace_selector(each) and each.selector.matches(pod.labels) for each in existing_terms):
        namespaces.add(pod.namespace)
    return namespaces


def _has_namespace_selector(term: AffinityTerm) -> bool:
    return bool(term.namespace_selector.conditions)
