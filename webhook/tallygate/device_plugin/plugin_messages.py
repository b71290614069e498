"""The messages of the kubelet's device plugin API v1beta1, and the conversion of values to them.

The table follows k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1/api.proto (Apache License 2.0). Classes are made from it
when the module is loaded: code that protoc generates fits only some versions of the runtime.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import Message

from tallygate.device_plugin.container_allocation import ContainerAllocation
from tallygate.device_plugin.device_inventory import OfferedDevice

API_VERSION: Final = "v1beta1"
_PACKAGE: Final = "v1beta1"
REGISTRATION_SERVICE: Final = f"{_PACKAGE}.Registration"
PLUGIN_SERVICE: Final = f"{_PACKAGE}.DevicePlugin"

_FIELD: Final = descriptor_pb2.FieldDescriptorProto
_SCALARS: Final = {
    "bool": _FIELD.TYPE_BOOL,
    "int32": _FIELD.TYPE_INT32,
    "int64": _FIELD.TYPE_INT64,
    "string": _FIELD.TYPE_STRING,
}
_MAP: Final = "map"
"""From text to text, the only map of the API."""

_MESSAGES: Final[Mapping[str, tuple[str, ...]]] = {
    "DevicePluginOptions": ("bool pre_start_required", "bool get_preferred_allocation_available"),
    "RegisterRequest": ("string version", "string endpoint", "string resource_name", "DevicePluginOptions options"),
    "Empty": (),
    "ListAndWatchResponse": ("repeated Device devices",),
    "TopologyInfo": ("repeated NUMANode nodes",),
    "NUMANode": ("int64 ID",),
    "Device": ("string ID", "string health", "TopologyInfo topology"),
    "PreStartContainerRequest": ("repeated string devices_ids",),
    "PreStartContainerResponse": (),
    "PreferredAllocationRequest": ("repeated ContainerPreferredAllocationRequest container_requests",),
    "ContainerPreferredAllocationRequest": (
        "repeated string available_deviceIDs",
        "repeated string must_include_deviceIDs",
        "int32 allocation_size",
    ),
    "PreferredAllocationResponse": ("repeated ContainerPreferredAllocationResponse container_responses",),
    "ContainerPreferredAllocationResponse": ("repeated string deviceIDs",),
    "AllocateRequest": ("repeated ContainerAllocateRequest container_requests",),
    "ContainerAllocateRequest": ("repeated string devices_ids",),
    "CDIDevice": ("string name",),
    "AllocateResponse": ("repeated ContainerAllocateResponse container_responses",),
    "ContainerAllocateResponse": (
        "map envs",
        "repeated Mount mounts",
        "repeated DeviceSpec devices",
        "map annotations",
        "repeated CDIDevice cdi_devices",
    ),
    "Mount": ("string container_path", "string host_path", "bool read_only"),
    "DeviceSpec": ("string container_path", "string host_path", "string permissions"),
}
"""The fields of each message in the order of their numbers, which begin with 1 and have no gap."""


def _create_classes() -> Mapping[str, type[Message]]:
    file = descriptor_pb2.FileDescriptorProto(name="tallygate/deviceplugin.proto", package=_PACKAGE, syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, text in enumerate(fields, start=1):
            _add_field(message, number, *text.rsplit(" ", 1))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")) for name in _MESSAGES
    }


def _add_field(message: descriptor_pb2.DescriptorProto, number: int, type_text: str, name: str) -> None:
    kind = type_text.removeprefix("repeated ")
    label = _FIELD.LABEL_REPEATED if kind != type_text or kind == _MAP else _FIELD.LABEL_OPTIONAL
    field = message.field.add(name=name, number=number, label=label)
    if kind == _MAP:
        entry = message.nested_type.add(name=f"{name.title()}Entry")
        entry.options.map_entry = True
        for key_number, key_name in enumerate(("key", "value"), start=1):
            _add_field(entry, key_number, "string", key_name)
        field.type, field.type_name = _FIELD.TYPE_MESSAGE, f".{_PACKAGE}.{message.name}.{entry.name}"
    elif kind in _SCALARS:
        field.type = _SCALARS[kind]
    else:
        field.type, field.type_name = _FIELD.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"


_CLASSES: Final = _create_classes()


def create_message(message_name: str, **fields: Any) -> Any:
    return _CLASSES[message_name](**fields)


def decode_message(message_name: str, content: bytes) -> Any:
    """Return the message of its bytes.

    Raises:
        google.protobuf.message.DecodeError: if the bytes are no such message.
    """
    return _CLASSES[message_name].FromString(content)


def encode_message(message: Message) -> bytes:
    return message.SerializeToString()


def create_device_list(offered: Iterable[OfferedDevice]) -> Any:
    """Return the list of all devices with their health and NUMA nodes."""
    return create_message("ListAndWatchResponse", devices=[_create_device(device) for device in offered])


def _create_device(offered: OfferedDevice) -> Any:
    numa = offered.device.numa
    nodes = None if numa is None else create_message("TopologyInfo", nodes=[create_message("NUMANode", ID=numa)])
    health = "Unhealthy" if offered.problem else "Healthy"
    return create_message("Device", ID=offered.offered_id, health=health, topology=nodes)


def create_allocation(allocation: ContainerAllocation) -> Any:
    return create_message(
        "ContainerAllocateResponse",
        envs=dict(allocation.env),
        mounts=[
            create_message("Mount", container_path=mount.path, host_path=mount.host_path, read_only=mount.read_only)
            for mount in allocation.mounts
        ],
        devices=[
            create_message(
                "DeviceSpec", container_path=node.path, host_path=node.host_path, permissions=node.permissions
            )
            for node in allocation.device_nodes
        ],
        annotations=dict(allocation.annotations),
        cdi_devices=[create_message("CDIDevice", name=name) for name in allocation.cdi_devices],
    )
