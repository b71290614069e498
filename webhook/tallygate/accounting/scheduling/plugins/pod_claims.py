"""The claims of a pod, and the pre-filter that rejects a pod for the state of its claims.

Source: podHasPVCs and PreFilter in plugins/volumebinding/volume_binding.go, GetPodVolumeClaims in binder.go,
component-helpers storage/ephemeral/ephemeral.go and storage/volume/pv_helpers.go, v1.36.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.pod_info import PodInfo
from tallygate.accounting.cluster.storage_index import StorageIndex, get_claim_class
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.objects.scheduling import Volume
from tallygate.objects.storage import ClaimMeta, PersistentVolumeClaim, VolumeClaimSpec, VolumePhase

WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"
_BIND_COMPLETED = "pv.kubernetes.io/bind-completed"


class ClaimRef(NamedTuple):
    """A claim that a pod names; `is_own` for the claim of an ephemeral volume, made for this pod."""

    name: str
    is_own: bool


class ClaimsByState(NamedTuple):
    """The claims of a pod by their binding, each in the order of its volumes."""

    bound: tuple[PersistentVolumeClaim, ...]
    delayed: tuple[PersistentVolumeClaim, ...]
    immediate: tuple[PersistentVolumeClaim, ...]


def get_claim_ref(volume: Volume, pod_name: str) -> ClaimRef | None:
    """Return the claim that a volume refers to, if any."""
    if volume.persistent_volume_claim is not None:
        return ClaimRef(volume.persistent_volume_claim.claim_name, is_own=False)
    return None if volume.ephemeral is None else ClaimRef(f"{pod_name}-{volume.name}", is_own=True)


def list_claim_refs(pod: IncomingPod) -> tuple[ClaimRef, ...]:
    """Return the claims that a pod names, in the order of its volumes."""
    return _list_volume_claim_refs(pod.spec.volumes or (), pod.name)


def list_claim_refs_on_node(pod: PodInfo) -> tuple[ClaimRef, ...]:
    return _list_volume_claim_refs(pod.volumes, pod.name)


def pre_filter_volume_binding(pod: IncomingPod, cluster: Cluster) -> str | None:
    """Return the reason why a pod fits no node in the present state of its claims; None without one."""
    storage, refs = cluster.storage, list_claim_refs(pod)
    if storage is None or not refs:
        return None
    for ref in refs:
        error = _find_claim_error(pod, storage, ref)
        if error is not None:
            return error
    return "pod has unbound immediate PersistentVolumeClaims" if sort_claims(pod, storage).immediate else None


def sort_claims(pod: IncomingPod, storage: StorageIndex) -> ClaimsByState:
    """Sort the existing claims of a pod by their binding."""
    claims = list(list_existing_claims(pod, storage))
    bound = tuple([claim for claim in claims if is_bound(claim)])
    delayed = tuple([claim for claim in claims if not is_bound(claim) and is_delayed(claim, storage)])
    immediate = tuple([claim for claim in claims if not is_bound(claim) and not is_delayed(claim, storage)])
    return ClaimsByState(bound, delayed, immediate)


def list_existing_claims(pod: IncomingPod, storage: StorageIndex) -> Iterator[PersistentVolumeClaim]:
    """Yield the existing claims of a pod, in the order of its volumes."""
    for ref in list_claim_refs(pod):
        claim = storage.claims.get((pod.namespace, ref.name))
        if claim is not None:
            yield claim


def is_bound(claim: PersistentVolumeClaim) -> bool:
    """Return whether a claim is bound to its volume permanently."""
    return bool(get_claim_spec(claim).volume_name) and _BIND_COMPLETED in (get_claim_meta(claim).annotations or {})


def is_delayed(claim: PersistentVolumeClaim, storage: StorageIndex) -> bool:
    """Return whether a claim is bound once a pod with it is scheduled. Without a binding mode a class binds at once."""
    storage_class = storage.classes.get(get_claim_class(claim))
    return (
        not get_claim_spec(claim).volume_name
        and storage_class is not None
        and storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
    )


def get_claim_meta(claim: PersistentVolumeClaim) -> ClaimMeta:
    """Return the metadata of a claim, empty if it has none."""
    return claim.metadata or ClaimMeta()


def get_claim_spec(claim: PersistentVolumeClaim) -> VolumeClaimSpec:
    """Return the spec of a claim, empty if it has none."""
    return claim.spec or VolumeClaimSpec()


def _list_volume_claim_refs(volumes: Sequence[Volume], pod_name: str) -> tuple[ClaimRef, ...]:
    return tuple([claim for volume in volumes if (claim := get_claim_ref(volume, pod_name)) is not None])


def _find_claim_error(pod: IncomingPod, storage: StorageIndex, ref: ClaimRef) -> str | None:
    claim = storage.claims.get((pod.namespace, ref.name))
    if claim is None:  # `pre_filter_volume_restrictions` has rejected the pod if the claim is not its own
        return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{ref.name}"'
    if (claim.status or VolumePhase()).phase == "Lost":
        volume = get_claim_spec(claim).volume_name or ""
        return f'persistentvolumeclaim "{ref.name}" bound to non-existent persistentvolume "{volume}"'
    if get_claim_meta(claim).deletion_timestamp is not None:
        return f'persistentvolumeclaim "{ref.name}" is being deleted'
    return find_ownership_error(ref, claim, pod)


def find_ownership_error(ref: ClaimRef, claim: PersistentVolumeClaim, pod: IncomingPod | PodInfo) -> str | None:
    """Return the error of an ephemeral claim that belongs to another pod (ephemeral.VolumeIsForPod), if any."""
    if not ref.is_own or _is_owned(claim, pod.uid):
        return None
    namespace = pod.namespace
    return f"PVC {namespace}/{ref.name} was not created for pod {namespace}/{pod.name} (pod is not owner)"


def format_not_found(kind: str, name: str) -> str:
    """Return the message of the API machinery for a missing object (NewNotFound in pkg/api/errors/errors.go)."""
    return f'{kind} "{name}" not found'


def _is_owned(claim: PersistentVolumeClaim, uid: str) -> bool:
    """Return whether a UID controls a claim (IsControlledBy in apimachinery pkg/apis/meta/v1/controller_ref.go)."""
    owners = get_claim_meta(claim).owner_references or ()
    controller = next((owner for owner in owners if owner.controller), None)
    return controller is not None and controller.uid == uid
