"""Device classes as they are now: the names of resources that their devices stand for."""

import msgspec

from webhook.objects.meta import ObjectMeta
from webhook.objects.scheduling import DeviceClass, DeviceClassSpec
from webhook.state.watch.named import Named
from webhook.state.watch.wire import Reading, revision_of


class DeviceRow(msgspec.Struct, frozen=True):
    """One class; `resource` is what its devices stand for, empty for nothing but its own name."""

    uid: str
    name: str
    revision: int
    resource: str = ""
    namespace: str = ""

    @property
    def substance(self) -> object:
        """All that is kept of it."""
        return self.resource

    def device_class(self) -> DeviceClass:
        """The class as far as it is kept."""
        return DeviceClass(ObjectMeta(name=self.name), DeviceClassSpec(self.resource or None))


class DeviceView(Named[DeviceRow]):
    """Every device class as of its revision."""


def digest(found: DeviceClass) -> DeviceRow:
    """The row of a stored class.

    Raises:
        ValueError: it lacks what every stored class has.
    """
    meta = found.metadata
    if meta is None or not meta.uid or not meta.name:
        raise ValueError("a device class without uid or name")
    resource = (found.spec.extended_resource_name if found.spec else None) or ""
    return DeviceRow(meta.uid, meta.name, revision_of(meta.resource_version or ""), resource)


DEVICES = Reading("deviceclasses", "/apis/resource.k8s.io/v1/deviceclasses", DeviceClass, digest, may_be_absent=True)
"""Their group is stable since 1.34 (k8s.io/api/resource/v1); an older API server has none."""
