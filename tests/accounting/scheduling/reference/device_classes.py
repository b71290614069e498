"""Device classes that stand for resources (dynamic-resource-allocation deviceclass/extendedresourcecache)."""

from tests.accounting.scheduling.reference.cluster import Cluster
from tests.accounting.scheduling.reference.objects import Json, get_name, get_spec

PREFIX = "deviceclass.resource.kubernetes.io/"
"""ResourceDeviceClassPrefix: every class has a resource of its own."""


def find_device_class(cluster: Cluster, resource: str) -> Json | None:
    """Implement GetDeviceClass."""
    for each in cluster.list_objects("DeviceClass"):
        if resource in (PREFIX + get_name(each), get_spec(each).get("extendedResourceName")):
            return each
    return None
