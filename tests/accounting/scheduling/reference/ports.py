"""Ports of the host (util/utils.go GetHostPorts, kube-scheduler v0.36.3 framework/types.go HostPortInfo)."""

from collections.abc import Iterable

from tests.accounting.scheduling.reference.objects import Json, spec_of

_ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - what stands in a pod, nothing listens

Port = tuple[str, str, int]
"""Address, protocol and number."""


def host_ports(pod: Json) -> list[Port]:
    """GetHostPorts: those of containers and sidecars."""
    init = [each for each in spec_of(pod).get("initContainers") or [] if each.get("restartPolicy") == "Always"]
    containers = init + (spec_of(pod).get("containers") or [])
    return [_port(each) for container in containers for each in container.get("ports") or [] if each.get("hostPort")]


def conflicts(wanted: Port, used: Iterable[Port]) -> bool:
    """HostPortInfo.CheckConflict: the address for all of them is every address."""
    address, *port = wanted
    return any(port == taken and (address == other or _ANY_ADDRESS in (address, other)) for other, *taken in used)


def _port(port: Json) -> Port:
    """HostPortInfo.sanitize."""
    return port.get("hostIP") or _ANY_ADDRESS, port.get("protocol") or "TCP", int(port["hostPort"])
