"""Volumes that are still to be made, for claims that wait for a pod.

Source: checkVolumeProvisions and hasEnoughCapacity in plugins/volumebinding/binder.go, v1.36.
"""

from typing import NamedTuple

import numpy as np

from webhook.accounting.cluster.node_columns import NodeColumns
from webhook.accounting.cluster.storage_index import StorageIndex, get_claim_class
from webhook.accounting.fit.rejection import Mask, NodeIndices
from webhook.accounting.fit.volumes import reach
from webhook.accounting.fit.volumes.matching import get_requested_size
from webhook.accounting.quantity import Quantity
from webhook.objects.meta import ObjectMeta
from webhook.objects.storage import CsiDriver, CsiDriverSpec, CsiStorageCapacity, PersistentVolumeClaim, StorageClass

_ABSENT = (b"", b"null")
_NO_PROVISIONER = ("", "kubernetes.io/no-provisioner")


class ProvisioningObstacles(NamedTuple):
    """Nodes on which a volume cannot be made: nobody makes it there, or there is no room for it."""

    unprovisionable: Mask
    full: Mask


def find_provisioning_obstacles(
    claim: PersistentVolumeClaim, storage: StorageIndex, columns: NodeColumns, nodes: NodeIndices
) -> ProvisioningObstacles:
    """Where a volume for the claim cannot be made, and why.

    Raises:
        QuantityError: the size of the claim or of a capacity is no quantity.
    """
    storage_class = storage.classes.get(get_claim_class(claim), StorageClass())
    no_nodes = np.zeros(len(nodes), dtype=np.bool_)
    if storage_class.provisioner in _NO_PROVISIONER:
        return ProvisioningObstacles(~no_nodes, no_nodes)
    is_outside = ~reach.mask_topologies(storage_class.allowed_topologies or (), columns)[nodes]
    size = get_requested_size(claim)
    if size is None or not _is_capacity_tracked(storage_class, storage):
        return ProvisioningObstacles(is_outside, no_nodes)
    return ProvisioningObstacles(
        is_outside, ~is_outside & ~_has_enough_capacity(storage_class, size, storage, columns)[nodes]
    )


def _is_capacity_tracked(storage_class: StorageClass, storage: StorageIndex) -> bool:
    """Whether the driver says how much room it has."""
    driver = storage.drivers.get(storage_class.provisioner, CsiDriver())
    return bool((driver.spec or CsiDriverSpec()).storage_capacity)


def _has_enough_capacity(
    storage_class: StorageClass, size: Quantity, storage: StorageIndex, columns: NodeColumns
) -> Mask:
    """The places from which a part with room for so much is reached."""
    reachable = np.zeros(columns.size, dtype=np.bool_)
    name = (storage_class.metadata or ObjectMeta()).name
    for capacity in storage.list_capacities():
        if capacity.storage_class_name == name and _is_large_enough(capacity, size):
            reachable |= reach.mask_segment(capacity.node_topology, columns)
    return reachable


def _is_large_enough(capacity: CsiStorageCapacity, size: Quantity) -> bool:
    """Whether one volume of this size can be made of what is left."""
    largest, remaining = bytes(capacity.maximum_volume_size), bytes(capacity.capacity)
    limit = remaining if largest in _ABSENT else largest
    return limit not in _ABSENT and Quantity.from_json(limit).value() >= size.value()
