"""Device classes as they are now: the names of resources that their devices stand for."""

import msgspec

from webhook.objects.meta import ObjectMeta
from webhook.objects.scheduling import DeviceClass, DeviceClassSpec
from webhook.state.watch.named import ObjectStore
from webhook.state.watch.wire import ResourceCodec, parse_revision


class DeviceClassRecord(msgspec.Struct, frozen=True):
    """One class; `resource` is what its devices stand for, empty for nothing but its own name."""

    uid: str
    name: str
    revision: int
    resource: str = ""
    namespace: str = ""

    @property
    def compared_value(self) -> object:
        """All that is kept of it."""
        return self.resource

    def to_device_class(self) -> DeviceClass:
        """The class as far as it is kept."""
        return DeviceClass(ObjectMeta(name=self.name), DeviceClassSpec(self.resource or None))


class DeviceClassStore(ObjectStore[DeviceClassRecord]):
    """Every device class as of its revision."""


def create_device_class_record(device_class: DeviceClass) -> DeviceClassRecord:
    """The row of a stored class.

    Raises:
        ValueError: it lacks what every stored class has.
    """
    meta = device_class.metadata
    if meta is None or not meta.uid or not meta.name:
        raise ValueError("a device class without uid or name")
    resource = (device_class.spec.extended_resource_name if device_class.spec else None) or ""
    return DeviceClassRecord(meta.uid, meta.name, parse_revision(meta.resource_version or ""), resource)


DEVICE_CLASS_CODEC = ResourceCodec(
    "deviceclasses", "/apis/resource.k8s.io/v1/deviceclasses", DeviceClass, create_device_class_record, is_optional=True
)
"""Their group is stable since 1.34 (k8s.io/api/resource/v1); an older API server has none."""
