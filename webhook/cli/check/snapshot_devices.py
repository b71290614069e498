"""The classes and devices of a snapshot, with the classes and templates of claims among the manifests.

A manifest is applied to the cluster of the snapshot, so that its classes and templates exist there too.
"""

from collections.abc import Iterable

from tallygate.webhook.accounting.devices.least_amounts import LeastAmounts
from tallygate.webhook.cli.check.snapshot_usage import store_devices
from tallygate.webhook.cli.manifests.claim_manifests import ClaimTemplates
from tallygate.webhook.cli.sources.snapshot_reader import SnapshotContents
from tallygate.webhook.gate.advertised_devices import KnownDevices
from tallygate.webhook.objects.devices import DeviceClass, DeviceClassSpec, ResourceClaimTemplate, list_expressions


def create_known_devices(
    snapshot: SnapshotContents, classes: Iterable[DeviceClass], templates: Iterable[ResourceClaimTemplate]
) -> KnownDevices:
    """Return what is known: no classes and no devices if the snapshot does not have these kinds.

    Raises:
        SnapshotError: if a slice is not as an API server would have stored it.
    """
    added = tuple(classes)
    if snapshot.cluster is not None:
        for each in added:
            snapshot.cluster.device_classes.put(each)
    selectors = {
        each.metadata.name: list_expressions((each.spec or DeviceClassSpec()).selectors)
        for each in (*snapshot.classes, *added)
        if each.metadata is not None and each.metadata.name
    }
    has_classes = "DeviceClass" in snapshot.device_kinds
    has_slices = "ResourceSlice" in snapshot.device_kinds
    least_amounts = LeastAmounts(store_devices(snapshot).list_slices, selectors.get) if has_slices else None
    return KnownDevices(
        lambda: selectors if has_classes else None,
        least_amounts,
        ClaimTemplates((*snapshot.templates, *templates)).find_claim,
    )
