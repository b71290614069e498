"""The configuration of a device plugin as values; the schema of its file is generated from these Structs."""

from collections.abc import Mapping
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from tallygate.policy.model import API_VERSION
from tallygate.policy.written import Written

MAX_REPLICAS: Final = 1_000
MAX_DEVICES: Final = 10_000
"""Devices of one resource with their replicas. The kubelet reads a list of at most 4 MiB."""

REPLICA_MARK: Final = "::"
"""The part between the ID of a shared device and the number of a replica. No ID contains it."""

GLOB_CHARACTERS: Final = frozenset("*?[")

_ContainerPath = Annotated[str, Meta(max_length=1000, extra_json_schema={"format": "container-path"})]
_ContainerText = Annotated[
    str, Meta(title="Value", description="The value.", max_length=10000, extra_json_schema={"format": "container-text"})
]
_DURATION = {"format": "duration", "maxLength": 64}


class DeviceSource(Written, frozen=True):
    """One entry of `devices`: a path, a glob over paths, or an ID without a file.

    `device_id` is "" if the path gives it; `numa` None if sysfs has it.
    """

    device_id: Annotated[str, Meta(title="ID", examples=["front"], extra_json_schema={"format": "device-id"})] = (
        msgspec.field(default="", name="id")
    )
    """The ID by which the kubelet remembers the device; left out: made from the path. Not for a glob."""
    path: Annotated[
        str, Meta(max_length=1000, examples=["/dev/ttyUSB*"], extra_json_schema={"format": "device-path"})
    ] = ""
    """The device node on the host, or a glob (*, ?, [0-3]). Left out: the device has no file, and counts only."""
    numa: Annotated[int | None, Meta(title="NUMA node", examples=[0], extra_json_schema={"format": "numa-node"})] = None
    """The NUMA node of the device; left out: that of sysfs, if it has one."""

    @property
    def is_glob(self) -> bool:
        """Whether the path stands for all files that match it."""
        return not GLOB_CHARACTERS.isdisjoint(self.path)


class MountTemplate(Written, frozen=True):
    """A mount of a host's path into each container with a device."""

    host_path: Annotated[_ContainerPath, Meta(examples=["/opt/dongles/{id}"])]
    """The path on the host, with placeholders."""
    path: Annotated[_ContainerPath, Meta(examples=["/opt/dongle"])]
    """The path in the container, with placeholders."""
    read_only: Annotated[bool, Meta(examples=[True])] = True
    """Whether the container can only read it; left out: true."""


class ContainerTemplate(Written, frozen=True):
    """The additions to a container with devices; the texts may have placeholders.

    `path` is the path of a device in the container; "" is the path on the host.
    """

    path: Annotated[_ContainerPath, Meta(examples=["/dev/dongle{index}"])] = ""
    """The path of the device node in the container; left out: the path on the host."""
    permissions: Annotated[str, Meta(examples=["rw"], extra_json_schema={"format": "permissions"})] = "rw"
    """What the container may do with the device node: r reads, w writes, m makes nodes; left out: rw."""
    mounts: Annotated[
        tuple[
            Annotated[
                MountTemplate,
                Meta(
                    title="Mount",
                    description="A mount of a path of the host.",
                    examples=[{"hostPath": "/opt/dongles/{id}", "path": "/opt/dongle"}],
                ),
            ],
            ...,
        ],
        Meta(min_length=1, max_length=100, examples=[[{"hostPath": "/opt/dongles/{id}", "path": "/opt/dongle"}]]),
    ] = ()
    """Further paths of the host."""
    env: Annotated[
        Mapping[str, Annotated[_ContainerText, Meta(examples=["{paths}"])]],
        Meta(
            title="Environment",
            max_length=100,
            examples=[{"DONGLES": "{paths}"}],
            extra_json_schema={"propertyNames": {"format": "variable"}},
        ),
    ] = msgspec.field(default_factory=dict)
    """Environment variables by name; the placeholders are those of all devices of the container."""
    annotations: Annotated[
        Mapping[str, Annotated[_ContainerText, Meta(examples=["{ids}"])]],
        Meta(
            max_length=100,
            examples=[{"example.com/dongles": "{ids}"}],
            extra_json_schema={"propertyNames": {"format": "label-key"}},
        ),
    ] = msgspec.field(default_factory=dict)
    """Annotations of the container for its runtime, by key; the placeholders are those of all devices of the
    container."""
    cdi_devices: Annotated[
        tuple[
            Annotated[
                str,
                Meta(
                    title="CDI device",
                    description="vendor/class=name, with placeholders.",
                    max_length=1000,
                    examples=["example.com/fpga={id}"],
                    extra_json_schema={"format": "cdi-name"},
                ),
            ],
            ...,
        ],
        Meta(title="CDI devices", min_length=1, max_length=100, examples=[["example.com/fpga={id}"]]),
    ] = ()
    """Fully qualified names of devices of the Container Device Interface, which the runtime adds."""


class HealthCheck(Written, frozen=True):
    """The check of each device: one of a file, a command and a URL. Times are in seconds.

    A device is unhealthy after `failures` failed checks in succession, and healthy again after `successes` passed ones.
    """

    file: Annotated[
        str, Meta(max_length=1000, examples=["/run/dongles/{id}.ok"], extra_json_schema={"format": "checked-file"})
    ] = ""
    """The device is healthy while this file of the host exists."""
    command: Annotated[
        tuple[
            Annotated[
                str,
                Meta(
                    title="Argument",
                    description="The program, or an argument.",
                    max_length=4000,
                    examples=["{path}"],
                    extra_json_schema={"format": "argument"},
                ),
            ],
            ...,
        ],
        Meta(min_length=1, max_length=100, examples=[["/usr/local/bin/probe", "{path}"]]),
    ] = ()
    """The device is healthy if this command of the plugin's container ends with code 0. No shell reads it. When the
    timeout is over, its whole process group is killed."""
    http: Annotated[
        str,
        Meta(
            title="HTTP",
            max_length=2000,
            examples=["http://127.0.0.1:8080/health/{id}"],
            extra_json_schema={"format": "url"},
        ),
    ] = ""
    """The device is healthy if a GET of this URL is answered with a status from 200 to 399."""
    interval: Annotated[
        float, Meta(examples=["10s"], extra_json_schema=_DURATION | {"written": {"type": "string", "default": "10s"}})
    ] = 10.0
    """The time from the end of one check to the next; left out: 10s."""
    timeout: Annotated[
        float, Meta(examples=["5s"], extra_json_schema=_DURATION | {"written": {"type": "string", "default": "5s"}})
    ] = 5.0
    """The time after which a check has failed; left out: 5s."""
    failures: Annotated[int, Meta(examples=[3], extra_json_schema={"format": "check-count"})] = 3
    """The successive failed checks after which a healthy device is unhealthy; left out: 3."""
    successes: Annotated[int, Meta(examples=[1], extra_json_schema={"format": "check-count"})] = 1
    """The successive passed checks after which an unhealthy device is healthy; left out: 1."""


class DeviceResource(Written, frozen=True):
    """One resource with its devices. Each device is published `replicas` times; it is shared if that is more than 1."""

    name: Annotated[str, Meta(examples=["example.com/dongle"], extra_json_schema={"format": "resource-name"})]
    """The name that pods request."""
    sources: Annotated[
        tuple[
            Annotated[
                DeviceSource,
                Meta(
                    title="Device",
                    description="One device by its path or ID, or the devices of all files that a glob matches.",
                    examples=[{"path": "/dev/ttyUSB*"}],
                ),
            ],
            ...,
        ],
        Meta(min_length=1, max_length=1000, examples=[[{"path": "/dev/ttyUSB*"}]]),
    ] = msgspec.field(name="devices")
    """The devices of the node."""
    replicas: Annotated[int, Meta(examples=[4], extra_json_schema={"format": "replicas"})] = 1
    """The number of containers that may have each device at a time; left out: 1. More than 1 shares a device: nothing
    separates the containers."""
    container: Annotated[ContainerTemplate, Meta(examples=[{"env": {"DONGLES": "{paths}"}}])] = ContainerTemplate()
    """The additions to a container with devices of this resource. Placeholders: {id}, {path} and {index} of one device;
    {ids}, {paths} and {count} of all devices of the container."""
    health: Annotated[HealthCheck | None, Meta(examples=[{"file": "/run/dongles/{id}.ok"}])] = None
    """The check of each device, beside that of its file. Exactly one of file, command and http must be given."""


class DevicePluginConfig(Written, frozen=True, kw_only=True):
    """The devices of nodes that `tallygate device-plugin` publishes."""

    api_version: Annotated[
        Literal["tallygate.dev/v1alpha1"],
        Meta(title="API version", examples=[API_VERSION], extra_json_schema={"type": "string"}),
    ]
    """The version of this form."""
    kind: Annotated[
        Literal["DevicePluginConfig"], Meta(examples=["DevicePluginConfig"], extra_json_schema={"type": "string"})
    ]
    """The kind of this document."""
    resources: Annotated[
        tuple[
            Annotated[
                DeviceResource,
                Meta(
                    title="Resource",
                    description="One extended resource and its devices.",
                    examples=[{"name": "example.com/dongle", "devices": [{"path": "/dev/ttyUSB*"}]}],
                ),
            ],
            ...,
        ],
        Meta(
            min_length=1,
            max_length=64,
            examples=[[{"name": "example.com/dongle", "devices": [{"path": "/dev/ttyUSB*"}]}]],
        ),
    ]
    """The resources; each has a server of its own."""
