"""The nodes of a cluster, listed for one audit: it keeps nobody waiting who looks at those that are followed."""

from collections.abc import Iterable
from typing import Final

import msgspec

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.cluster.ingest import ingest
from webhook.accounting.quantity_parser import QuantityError
from webhook.audit.kinds import NODE, create_list_path
from webhook.audit.pages import AuditError, ListForbiddenError, PageReader
from webhook.gate.scheduling_snapshot import FixedSnapshot

DEVICE_CLASS: Final = "DeviceClass"
_DEVICE_CLASSES: Final = "/apis/resource.k8s.io/v1/deviceclasses"


def list_nodes(pages: PageReader) -> FixedSnapshot:
    """The nodes without what is on them; where device classes may not be read, less is said of what none advertises.

    Raises:
        AuditError: they cannot be listed.
    """
    cluster, has_devices = Cluster(), True
    ingest_objects(cluster, "Node", (item for items in pages.list_pages(create_list_path(NODE)) for item in items))
    try:
        ingest_objects(cluster, DEVICE_CLASS, (item for items in pages.list_pages(_DEVICE_CLASSES) for item in items))
    except ListForbiddenError:
        has_devices = False
    return FixedSnapshot(cluster, has_pods=False, has_devices=has_devices)


def ingest_objects(cluster: Cluster, kind: str, items: Iterable[msgspec.Raw]) -> None:
    """Take objects into a cluster.

    Raises:
        AuditError: one is not of its kind.
    """
    try:
        for item in items:
            ingest(cluster, kind, item)
    except (QuantityError, ValueError) as error:
        raise AuditError(f"a {kind} is not as an API server would have stored it: {error}") from error
