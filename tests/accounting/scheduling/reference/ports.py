"""Host ports (util/utils.go GetHostPorts, kube-scheduler v0.36.3 framework/types.go HostPortInfo)."""

from collections.abc import Iterable

from tests.accounting.scheduling.reference.objects import Json, get_spec

_ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - a value in a pod, nothing listens

Port = tuple[str, str, int]
"""Address, protocol and number."""


def list_host_ports(pod: Json) -> list[Port]:
    """Return GetHostPorts: the host ports of containers and sidecars."""
    init = [each for each in get_spec(pod).get("initContainers") or [] if each.get("restartPolicy") == "Always"]
    containers = init + (get_spec(pod).get("containers") or [])
    return [_port(each) for container in containers for each in container.get("ports") or [] if each.get("hostPort")]


def has_conflict(requested: Port, used: Iterable[Port]) -> bool:
    """Implement HostPortInfo.CheckConflict; the wildcard address conflicts with every address."""
    address, *port = requested
    return any(port == taken and (address == other or _ANY_ADDRESS in (address, other)) for other, *taken in used)


def _port(port: Json) -> Port:
    """Implement HostPortInfo.sanitize."""
    return port.get("hostIP") or _ANY_ADDRESS, port.get("protocol") or "TCP", int(port["hostPort"])
