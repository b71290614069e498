"""Device classes that stand for resources (dynamic-resource-allocation deviceclass/extendedresourcecache)."""

from tests.accounting.scheduling.reference.cluster import Cluster
from tests.accounting.scheduling.reference.objects import Json, name_of, spec_of

PREFIX = "deviceclass.resource.kubernetes.io/"
"""ResourceDeviceClassPrefix: every class has a resource of its own."""


def device_class_of(cluster: Cluster, resource: str) -> Json | None:
    """GetDeviceClass."""
    for each in cluster.all("DeviceClass"):
        if resource in (PREFIX + name_of(each), spec_of(each).get("extendedResourceName")):
            return each
    return None
