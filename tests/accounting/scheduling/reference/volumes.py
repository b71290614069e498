"""Volumes and claims (CH storage/volume/pv_helpers.go, helpers.go, storage/ephemeral/ephemeral.go)."""

from collections.abc import Collection, Iterable

from tallygate.accounting.quantity import Quantity
from tests.accounting.scheduling.reference.amounts import parse_quantity
from tests.accounting.scheduling.reference.cluster import Cluster
from tests.accounting.scheduling.reference.node_selectors import matches_any
from tests.accounting.scheduling.reference.objects import (
    Json,
    Labels,
    get_annotations,
    get_labels,
    get_name,
    get_namespace,
    get_spec,
    get_status,
    get_uid,
    get_volumes,
    is_being_deleted,
    is_controlled_by,
)
from tests.accounting.scheduling.reference.selectors import parse_label_selector

WAIT = "WaitForFirstConsumer"
_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"


def find_claim_name(pod: Json, volume: Json) -> tuple[str, bool] | None:
    """Return the claim of a volume, and whether it is ephemeral (ephemeral.VolumeClaimName)."""
    if volume.get("persistentVolumeClaim") is not None:
        return str(volume["persistentVolumeClaim"].get("claimName", "")), False
    if volume.get("ephemeral") is not None:
        return f"{get_name(pod)}-{volume['name']}", True
    return None


def list_claims(pod: Json) -> list[tuple[str, bool]]:
    """Return `find_claim_name` of every volume with a claim."""
    return [claim for each in get_volumes(pod) if (claim := find_claim_name(pod, each)) is not None]


def find_ownership_error(pod: Json, claim: Json) -> str | None:
    """Return the error if an ephemeral claim belongs to another pod (ephemeral.VolumeIsForPod)."""
    if get_namespace(claim) == get_namespace(pod) and is_controlled_by(claim, pod):
        return None
    theirs, ours = f"{get_namespace(claim)}/{get_name(claim)}", f"{get_namespace(pod)}/{get_name(pod)}"
    return f"PVC {theirs} was not created for pod {ours} (pod is not owner)"


def get_claim_class(claim: Json) -> str:
    """Implement GetPersistentVolumeClaimClass."""
    return get_annotations(claim).get(_CLASS_ANNOTATION, get_spec(claim).get("storageClassName") or "")


def get_volume_class(volume: Json) -> str:
    """Implement GetPersistentVolumeClass."""
    return get_annotations(volume).get(_CLASS_ANNOTATION, get_spec(volume).get("storageClassName") or "")


def waits_for_consumer(cluster: Cluster, claim: Json) -> bool:
    """Implement IsDelayBindingMode; a class without a mode binds immediately (SetDefaults_StorageClass)."""
    found = cluster.find("StorageClass", get_claim_class(claim))
    return found is not None and found.get("volumeBindingMode") == WAIT


def get_requested_size(claim: Json) -> Quantity:
    """Return the storage that a claim requests."""
    return parse_quantity(((get_spec(claim).get("resources") or {}).get("requests") or {}).get("storage"))


def matches_node_affinity(volume: Json, labels: Labels) -> bool:
    """Implement CheckNodeAffinity, which reads a node's labels but not its name."""
    required = (get_spec(volume).get("nodeAffinity") or {}).get("required")
    return required is None or matches_any(required.get("nodeSelectorTerms") or [], labels, "")


def is_bound_to(volume: Json, claim: Json) -> bool:
    """Implement IsVolumeBoundToClaim."""
    reference = get_spec(volume).get("claimRef")
    if reference is None:
        return False
    if (reference.get("name"), reference.get("namespace")) != (get_name(claim), get_namespace(claim)):
        return False
    return not reference.get("uid") or reference["uid"] == get_uid(claim)


def find_matching(claim: Json, volumes: Iterable[Json], node: Json, chosen: Collection[str]) -> Json | None:
    """Implement FindMatchingVolume for the scheduler: return the claim's own volume, else the smallest match."""
    smallest: Json | None = None
    for each in volumes:
        if get_name(each) in chosen or not _is_compatible(claim, each):
            continue
        is_reachable = matches_node_affinity(each, get_labels(node))
        if is_bound_to(each, claim):
            return each if is_reachable else None
        if not is_reachable or not _is_free_for(claim, each):
            continue
        if smallest is None or _get_capacity(smallest) > _get_capacity(each):
            smallest = each
    return smallest


def _is_compatible(claim: Json, volume: Json) -> bool:
    """Check the conditions that also apply to a volume with a reference to the claim."""
    claim_spec, volume_spec = get_spec(claim), get_spec(volume)
    if volume_spec.get("claimRef") is not None and not is_bound_to(volume, claim):
        return False
    if _get_capacity(volume) < get_requested_size(claim) or is_being_deleted(volume):
        return False
    is_same_mode = (claim_spec.get("volumeMode") or "Filesystem") == (volume_spec.get("volumeMode") or "Filesystem")
    attributes = "volumeAttributesClassName"
    return is_same_mode and (claim_spec.get(attributes) or "") == (volume_spec.get(attributes) or "")


def _is_free_for(claim: Json, volume: Json) -> bool:
    """Check the conditions for a volume without a reference to a claim."""
    claim_spec, volume_spec = get_spec(claim), get_spec(volume)
    if get_status(volume).get("phase") != "Available" or get_volume_class(volume) != get_claim_class(claim):
        return False
    if claim_spec.get("selector") is not None and not parse_label_selector(claim_spec["selector"]).matches(
        get_labels(volume)
    ):
        return False
    return set(claim_spec.get("accessModes") or []) <= set(volume_spec.get("accessModes") or [])


def _get_capacity(volume: Json) -> Quantity:
    return parse_quantity((get_spec(volume).get("capacity") or {}).get("storage"))
