"""Volumes and claims (CH storage/volume/pv_helpers.go, helpers.go, storage/ephemeral/ephemeral.go)."""

from collections.abc import Collection, Iterable

from tests.accounting.scheduling.reference.amounts import quantity
from tests.accounting.scheduling.reference.cluster import Cluster
from tests.accounting.scheduling.reference.node_selectors import matches_any
from tests.accounting.scheduling.reference.objects import (
    Json,
    Labels,
    annotations_of,
    is_being_deleted,
    is_controlled_by,
    labels_of,
    name_of,
    namespace_of,
    spec_of,
    status_of,
    uid_of,
    volumes_of,
)
from tests.accounting.scheduling.reference.selectors import label_selector
from webhook.accounting.quantity import Quantity

WAIT = "WaitForFirstConsumer"
_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"


def claim_of(pod: Json, volume: Json) -> tuple[str, bool] | None:
    """The claim that a volume stands for, and whether it is made for this pod (ephemeral.VolumeClaimName)."""
    if volume.get("persistentVolumeClaim") is not None:
        return str(volume["persistentVolumeClaim"].get("claimName", "")), False
    if volume.get("ephemeral") is not None:
        return f"{name_of(pod)}-{volume['name']}", True
    return None


def claims_of(pod: Json) -> list[tuple[str, bool]]:
    """`claim_of` of every volume that stands for one."""
    return [claim for each in volumes_of(pod) if (claim := claim_of(pod, each)) is not None]


def not_for_pod(pod: Json, claim: Json) -> str | None:
    """ephemeral.VolumeIsForPod: the error, if it is not."""
    if namespace_of(claim) == namespace_of(pod) and is_controlled_by(claim, pod):
        return None
    theirs, ours = f"{namespace_of(claim)}/{name_of(claim)}", f"{namespace_of(pod)}/{name_of(pod)}"
    return f"PVC {theirs} was not created for pod {ours} (pod is not owner)"


def class_of_claim(claim: Json) -> str:
    """GetPersistentVolumeClaimClass."""
    return annotations_of(claim).get(_CLASS_ANNOTATION, spec_of(claim).get("storageClassName") or "")


def class_of_volume(volume: Json) -> str:
    """GetPersistentVolumeClass."""
    return annotations_of(volume).get(_CLASS_ANNOTATION, spec_of(volume).get("storageClassName") or "")


def waits(cluster: Cluster, claim: Json) -> bool:
    """IsDelayBindingMode; a class without a mode binds at once (SetDefaults_StorageClass)."""
    found = cluster.find("StorageClass", class_of_claim(claim))
    return found is not None and found.get("volumeBindingMode") == WAIT


def asked_size(claim: Json) -> Quantity:
    """The storage that a claim requests."""
    return quantity(((spec_of(claim).get("resources") or {}).get("requests") or {}).get("storage"))


def matches_node_affinity(volume: Json, labels: Labels) -> bool:
    """CheckNodeAffinity, which knows a node's labels but not its name."""
    required = (spec_of(volume).get("nodeAffinity") or {}).get("required")
    return required is None or matches_any(required.get("nodeSelectorTerms") or [], labels, "")


def is_bound_to(volume: Json, claim: Json) -> bool:
    """IsVolumeBoundToClaim."""
    reference = spec_of(volume).get("claimRef")
    if reference is None:
        return False
    if (reference.get("name"), reference.get("namespace")) != (name_of(claim), namespace_of(claim)):
        return False
    return not reference.get("uid") or reference["uid"] == uid_of(claim)


def find_matching(claim: Json, volumes: Iterable[Json], node: Json, chosen: Collection[str]) -> Json | None:
    """FindMatchingVolume, as the scheduler calls it: the volume meant for the claim, else the smallest that does."""
    smallest: Json | None = None
    for each in volumes:
        if name_of(each) in chosen or not _may_hold(claim, each):
            continue
        is_reachable = matches_node_affinity(each, labels_of(node))
        if is_bound_to(each, claim):
            return each if is_reachable else None
        if not is_reachable or not _is_free_for(claim, each):
            continue
        if smallest is None or _size(smallest) > _size(each):
            smallest = each
    return smallest


def _may_hold(claim: Json, volume: Json) -> bool:
    """The conditions that hold for a volume already meant for the claim too."""
    asked, given = spec_of(claim), spec_of(volume)
    if given.get("claimRef") is not None and not is_bound_to(volume, claim):
        return False
    if _size(volume) < asked_size(claim) or is_being_deleted(volume):
        return False
    is_same_mode = (asked.get("volumeMode") or "Filesystem") == (given.get("volumeMode") or "Filesystem")
    attributes = "volumeAttributesClassName"
    return is_same_mode and (asked.get(attributes) or "") == (given.get(attributes) or "")


def _is_free_for(claim: Json, volume: Json) -> bool:
    """The conditions for a volume that nobody claimed yet."""
    asked, given = spec_of(claim), spec_of(volume)
    if status_of(volume).get("phase") != "Available" or class_of_volume(volume) != class_of_claim(claim):
        return False
    if asked.get("selector") is not None and not label_selector(asked["selector"]).matches(labels_of(volume)):
        return False
    return set(asked.get("accessModes") or []) <= set(given.get("accessModes") or [])


def _size(volume: Json) -> Quantity:
    return quantity((spec_of(volume).get("capacity") or {}).get("storage"))
