"""How many volumes of a CSI driver a node attaches.

Source: plugins/nodevolumelimits/csi.go, v1.36 (with VolumeLimitScaling off, as by default). Volumes of kinds that were
built into Kubernetes count for the driver that serves them now, each as a volume of its own.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.cluster.storage_index import StorageIndex, get_claim_class
from webhook.accounting.fit.incoming import Incoming
from webhook.accounting.fit.rejection import Places, Rejection, for_good, for_now
from webhook.accounting.fit.volumes.built_in import DRIVERS, NOT_COUNTED, disk_of, driver_of
from webhook.accounting.fit.volumes.claims import Named, disowned, named_by, named_on_node, spec_of
from webhook.objects.scheduling import Volume
from webhook.objects.storage import PersistentVolumeClaim, VolumeAttachmentSpec, VolumeSpec

_Handles = dict[str, str]
"""Volumes by a name that no other has, and the driver of each."""


def exceeding(pod: Incoming, cluster: Cluster, places: Places) -> Iterator[Rejection]:
    """Nodes that cannot attach so many more volumes."""
    storage, volumes = cluster.storage, pod.spec.volumes or ()
    if storage is None or not volumes:
        return
    new = _handles(volumes, pod.name, pod.namespace, storage)
    name = cluster.nodes.get_name
    limits = {place: limit for place in places.tolist() if new and (limit := storage.attach_limits.get(name(place)))}
    faults = {place: fault for place in limits if (fault := _fault(cluster, storage, place))}
    over = [place in limits and _exceeds(new, limits[place], cluster, storage, place) for place in places.tolist()]
    faulty = np.isin(places, list(faults))
    for fault in dict.fromkeys(faults.values()):
        nodes = np.isin(places, [place for place, said in faults.items() if said == fault])
        yield replace(for_good(fault, nodes), is_fault=True)
    yield for_now("node(s) exceed max volume count", np.array(over, dtype=np.bool_) & ~faulty)


def _fault(cluster: Cluster, storage: StorageIndex, place: int) -> str | None:
    """What is wrong with the first claim of a pod there that was made for another."""
    if place not in cluster.get_ephemeral_volume_counts():
        return None
    for pod in cluster.get_node_pods(place).values():
        for each in named_on_node(pod):
            claim = storage.claims.get((pod.namespace, each.name))
            fault = None if claim is None else disowned(each, claim, pod)
            if fault is not None:
                return fault
    return None


def _exceeds(new: _Handles, limits: Mapping[str, int], cluster: Cluster, storage: StorageIndex, place: int) -> bool:
    asked = Counter(new.values())
    attached = _attachments(storage, cluster.nodes.get_name(place))
    most = cluster.get_volume_counts().get(place, 0) + len(attached)
    if all(most + asked[driver] <= limit for driver, limit in limits.items()):
        return False
    mounted = _mounted(cluster, storage, place)
    current = Counter((attached | mounted).values())
    more = Counter(driver for handle, driver in new.items() if handle not in mounted)
    return any(count and current[driver] + count > limits[driver] for driver, count in more.items() if driver in limits)


def _mounted(cluster: Cluster, storage: StorageIndex, place: int) -> _Handles:
    mounted: _Handles = {}
    for pod in cluster.get_node_pods(place).values():
        if pod.volumes:
            mounted |= _handles(pod.volumes, pod.name, pod.namespace, storage)
    return mounted


def _attachments(storage: StorageIndex, node: str) -> _Handles:
    """getNodeVolumeAttachmentInfo: CSI volumes that are attached to a node, or are to be."""
    found: _Handles = {}
    for each in storage.list_attachments(node):
        spec = each.spec or VolumeAttachmentSpec()
        name = spec.source.persistent_volume_name if spec.source else None
        volume = storage.volumes.get(name or "")
        source = volume.spec.csi if volume and volume.spec else None
        if spec.attacher and source is not None:
            found[f"{spec.attacher}/{source.volume_handle}"] = spec.attacher
    return found


def _handles(volumes: Sequence[Volume], pod: str, namespace: str, storage: StorageIndex) -> _Handles:
    """filterAttachableVolumes: a claim that is not there is passed over."""
    found: _Handles = {}
    for volume in volumes:
        claim = named_by(volume, pod)
        handle = _inline(volume) if claim is None else _claimed(claim, namespace, storage)
        if handle is not None:
            driver, name = handle
            found[f"{driver}/{name}"] = driver
    return found


def _inline(volume: Volume) -> tuple[str, str] | None:
    driver = driver_of(volume)
    return None if driver is None else (driver, disk_of(volume))


def _claimed(named: Named, namespace: str, storage: StorageIndex) -> tuple[str, str] | None:
    """getCSIDriverInfo: driver and handle of a claim's volume, or of the volume that is still to be made for it."""
    claim = storage.claims.get((namespace, named.name))
    if claim is None:
        return None
    name = spec_of(claim).volume_name or ""
    volume = storage.volumes.get(name)
    if volume is None:
        return _of_class(claim, namespace, named.name, storage)
    spec = volume.spec or VolumeSpec()
    if spec.csi is not None:
        return (spec.csi.driver, spec.csi.volume_handle) if spec.csi.driver and spec.csi.volume_handle else None
    driver = driver_of(spec)
    return None if driver is None else (driver, f"volume {name}")


def _of_class(claim: PersistentVolumeClaim, namespace: str, name: str, storage: StorageIndex) -> tuple[str, str] | None:
    made_by = storage.classes.get(get_claim_class(claim))
    if made_by is None or not made_by.provisioner or made_by.provisioner in NOT_COUNTED:
        return None
    return DRIVERS.get(made_by.provisioner, made_by.provisioner), f"to be made {namespace}/{name}"
