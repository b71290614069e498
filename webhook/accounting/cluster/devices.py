"""Device classes, and the resources that they stand for.

Source: dynamic-resource-allocation deviceclass/extendedresourcecache, v1.36; KEP-5004.
"""

from webhook.objects.meta import ObjectMeta
from webhook.objects.scheduling import DeviceClass

PREFIX = "deviceclass.resource.kubernetes.io/"
"""Every class has a resource of its own (ResourceDeviceClassPrefix in k8s.io/api resource/v1)."""


class DeviceClasses:
    """The device classes of a cluster by name."""

    def __init__(self) -> None:
        self._resources: dict[str, str] = {}
        self._serving: dict[str, dict[str, None]] = {}

    def __len__(self) -> int:
        """How many there are."""
        return len(self._resources)

    def put(self, found: DeviceClass) -> None:
        """Keep a class as it is now."""
        name = (found.metadata or ObjectMeta()).name or ""
        resource = (found.spec.extended_resource_name if found.spec else None) or ""
        if self._resources.get(name) == resource:
            return
        self.remove(name)
        self._resources[name] = resource
        if resource:
            self._serving.setdefault(resource, {})[name] = None

    def remove(self, name: str) -> None:
        """Keep a class no longer."""
        resource = self._resources.pop(name, "")
        serving = self._serving.get(resource)
        if serving is not None:
            del serving[name]
            if not serving:
                del self._serving[resource]

    def of(self, resource: str) -> str | None:
        """The class whose devices a node without the resource hands out for it; None when there is none."""
        own = resource.removeprefix(PREFIX)
        if own != resource and own in self._resources:
            return own
        return next(iter(self._serving.get(resource, ())), None)
