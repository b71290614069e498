"""The claims of a pod, and why a pod with them is not placed at all.

Source: podHasPVCs and PreFilter in plugins/volumebinding/volume_binding.go, GetPodVolumeClaims in binder.go,
component-helpers storage/ephemeral/ephemeral.go and storage/volume/pv_helpers.go, v1.36.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.cluster.pod_info import PodInfo
from webhook.accounting.cluster.storage_index import StorageIndex, get_claim_class
from webhook.accounting.fit.incoming import Incoming
from webhook.objects.scheduling import Volume
from webhook.objects.storage import ClaimMeta, PersistentVolumeClaim, VolumeClaimSpec, VolumePhase

WAITING = "WaitForFirstConsumer"
_BOUND = "pv.kubernetes.io/bind-completed"


class Named(NamedTuple):
    """A claim that a pod names; `is_own` when it is made for this pod, from an ephemeral volume of it."""

    name: str
    is_own: bool


class Sorted(NamedTuple):
    """The claims of a pod by what is still to happen to them, each in the order of its volumes."""

    bound: tuple[PersistentVolumeClaim, ...]
    waiting: tuple[PersistentVolumeClaim, ...]
    immediate: tuple[PersistentVolumeClaim, ...]


def named_by(volume: Volume, pod_name: str) -> Named | None:
    """The claim that a volume stands for."""
    if volume.persistent_volume_claim is not None:
        return Named(volume.persistent_volume_claim.claim_name, is_own=False)
    return None if volume.ephemeral is None else Named(f"{pod_name}-{volume.name}", is_own=True)


def named(pod: Incoming) -> tuple[Named, ...]:
    """The claims that a pod names, in the order of its volumes."""
    return _all_named(pod.spec.volumes or (), pod.name)


def named_on_node(pod: PodInfo) -> tuple[Named, ...]:
    """The claims of a pod on a node."""
    return _all_named(pod.volumes, pod.name)


def refusal(pod: Incoming, cluster: Cluster) -> str | None:
    """Why a pod cannot be placed before something becomes of its claims."""
    storage, names = cluster.storage, named(pod)
    if storage is None or not names:
        return None
    for each in names:
        fault = _fault(pod, storage, each)
        if fault is not None:
            return fault
    return "pod has unbound immediate PersistentVolumeClaims" if sort(pod, storage).immediate else None


def sort(pod: Incoming, storage: StorageIndex) -> Sorted:
    """The claims of a pod that are there."""
    claims = list(found(pod, storage))
    bound = tuple([each for each in claims if is_bound(each)])
    waiting = tuple([each for each in claims if not is_bound(each) and waits(each, storage)])
    immediate = tuple([each for each in claims if not is_bound(each) and not waits(each, storage)])
    return Sorted(bound, waiting, immediate)


def found(pod: Incoming, storage: StorageIndex) -> Iterator[PersistentVolumeClaim]:
    """The claims of a pod that are there, in the order of its volumes."""
    for each in named(pod):
        claim = storage.claims.get((pod.namespace, each.name))
        if claim is not None:
            yield claim


def is_bound(claim: PersistentVolumeClaim) -> bool:
    """Whether a claim has its volume for good."""
    return bool(spec_of(claim).volume_name) and _BOUND in (meta_of(claim).annotations or {})


def waits(claim: PersistentVolumeClaim, storage: StorageIndex) -> bool:
    """Whether a claim gets its volume once a pod with it is placed. A class that does not say so binds at once."""
    made_by = storage.classes.get(get_claim_class(claim))
    return not spec_of(claim).volume_name and made_by is not None and made_by.volume_binding_mode == WAITING


def meta_of(claim: PersistentVolumeClaim) -> ClaimMeta:
    """The metadata of a claim, empty if it has none."""
    return claim.metadata or ClaimMeta()


def spec_of(claim: PersistentVolumeClaim) -> VolumeClaimSpec:
    """The spec of a claim, empty if it has none."""
    return claim.spec or VolumeClaimSpec()


def _all_named(volumes: Sequence[Volume], pod_name: str) -> tuple[Named, ...]:
    return tuple([claim for each in volumes if (claim := named_by(each, pod_name)) is not None])


def _fault(pod: Incoming, storage: StorageIndex, each: Named) -> str | None:
    claim = storage.claims.get((pod.namespace, each.name))
    if claim is None:  # of those that are not its own, `restrictions` has refused the pod already
        return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{each.name}"'
    if (claim.status or VolumePhase()).phase == "Lost":
        volume = spec_of(claim).volume_name or ""
        return f'persistentvolumeclaim "{each.name}" bound to non-existent persistentvolume "{volume}"'
    if meta_of(claim).deletion_timestamp is not None:
        return f'persistentvolumeclaim "{each.name}" is being deleted'
    return disowned(each, claim, pod)


def disowned(named: Named, claim: PersistentVolumeClaim, pod: Incoming | PodInfo) -> str | None:
    """What is wrong with a claim that was to be made for a pod and is another's (ephemeral.VolumeIsForPod)."""
    if not named.is_own or _is_owned(claim, pod.uid):
        return None
    where = pod.namespace
    return f"PVC {where}/{named.name} was not created for pod {where}/{pod.name} (pod is not owner)"


def not_found(kind: str, name: str) -> str:
    """What the API machinery says of an object that is not there (NewNotFound in pkg/api/errors/errors.go)."""
    return f'{kind} "{name}" not found'


def _is_owned(claim: PersistentVolumeClaim, uid: str) -> bool:
    """IsControlledBy in apimachinery pkg/apis/meta/v1/controller_ref.go."""
    owners = meta_of(claim).owner_references or ()
    controller = next((each for each in owners if each.controller), None)
    return controller is not None and controller.uid == uid
