"""Device classes, and the resources that they stand for.

Source: dynamic-resource-allocation deviceclass/extendedresourcecache, v1.36; KEP-5004.
"""

from webhook.objects.meta import ObjectMeta
from webhook.objects.scheduling import DeviceClass

DEVICE_CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"
"""Every class has a resource of its own (ResourceDeviceClassPrefix in k8s.io/api resource/v1)."""


class DeviceClasses:
    """The device classes of a cluster by name."""

    def __init__(self) -> None:
        self._resource_by_class: dict[str, str] = {}
        self._classes_by_resource: dict[str, dict[str, None]] = {}

    def __len__(self) -> int:
        """How many there are."""
        return len(self._resource_by_class)

    def put(self, device_class: DeviceClass) -> None:
        """Keep a class as it is now."""
        name = (device_class.metadata or ObjectMeta()).name or ""
        resource = (device_class.spec.extended_resource_name if device_class.spec else None) or ""
        if self._resource_by_class.get(name) == resource:
            return
        self.remove(name)
        self._resource_by_class[name] = resource
        if resource:
            self._classes_by_resource.setdefault(resource, {})[name] = None

    def remove(self, name: str) -> None:
        """Keep a class no longer."""
        resource = self._resource_by_class.pop(name, "")
        classes = self._classes_by_resource.get(resource)
        if classes is not None:
            del classes[name]
            if not classes:
                del self._classes_by_resource[resource]

    def find_class(self, resource: str) -> str | None:
        """The class whose devices a node without the resource hands out for it; None when there is none."""
        class_name = resource.removeprefix(DEVICE_CLASS_PREFIX)
        if class_name != resource and class_name in self._resource_by_class:
            return class_name
        return next(iter(self._classes_by_resource.get(resource, ())), None)
