"""Volumes that are still to be made, for claims that wait for a pod.

Source: checkVolumeProvisions and hasEnoughCapacity in plugins/volumebinding/binder.go, v1.36.
"""

from typing import NamedTuple

import numpy as np

from webhook.accounting.cluster.node_columns import NodeColumns
from webhook.accounting.cluster.storage_index import StorageIndex, get_claim_class
from webhook.accounting.fit.rejection import Mask, Places
from webhook.accounting.fit.volumes import reach
from webhook.accounting.fit.volumes.matching import asked_size
from webhook.accounting.quantity import Quantity
from webhook.objects.meta import ObjectMeta
from webhook.objects.storage import CsiDriver, CsiDriverSpec, CsiStorageCapacity, PersistentVolumeClaim, StorageClass

_ABSENT = (b"", b"null")
_NOBODY = ("", "kubernetes.io/no-provisioner")


class Hindered(NamedTuple):
    """Nodes on which a volume cannot be made: nobody makes it there, or there is no room for it."""

    unmade: Mask
    full: Mask


def hindered(claim: PersistentVolumeClaim, storage: StorageIndex, nodes: NodeColumns, places: Places) -> Hindered:
    """Where a volume for the claim cannot be made, and why.

    Raises:
        QuantityError: the size of the claim or of a capacity is no quantity.
    """
    made_by = storage.classes.get(get_claim_class(claim), StorageClass())
    nowhere = np.zeros(len(places), dtype=np.bool_)
    if made_by.provisioner in _NOBODY:
        return Hindered(~nowhere, nowhere)
    outside = ~reach.of_topologies(made_by.allowed_topologies or (), nodes)[places]
    size = asked_size(claim)
    if size is None or not _is_tracked(made_by, storage):
        return Hindered(outside, nowhere)
    return Hindered(outside, ~outside & ~_with_room(made_by, size, storage, nodes)[places])


def _is_tracked(made_by: StorageClass, storage: StorageIndex) -> bool:
    """Whether the driver says how much room it has."""
    driver = storage.drivers.get(made_by.provisioner, CsiDriver())
    return bool((driver.spec or CsiDriverSpec()).storage_capacity)


def _with_room(made_by: StorageClass, size: Quantity, storage: StorageIndex, nodes: NodeColumns) -> Mask:
    """The places from which a part with room for so much is reached."""
    reached = np.zeros(nodes.size, dtype=np.bool_)
    name = (made_by.metadata or ObjectMeta()).name
    for each in storage.list_capacities():
        if each.storage_class_name == name and _has(each, size):
            reached |= reach.of_part(each.node_topology, nodes)
    return reached


def _has(capacity: CsiStorageCapacity, size: Quantity) -> bool:
    """Whether one volume of this size can be made of what is left."""
    largest, left = bytes(capacity.maximum_volume_size), bytes(capacity.capacity)
    limit = left if largest in _ABSENT else largest
    return limit not in _ABSENT and Quantity.from_json(limit).value() >= size.value()
