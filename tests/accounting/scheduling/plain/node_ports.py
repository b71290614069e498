"""framework/plugins/nodeports/node_ports.go, and the ports in util/utils.go and kube-scheduler framework/types.go."""

from tests.accounting.scheduling.plain.cluster import NodeInfo, PodInfo
from tests.accounting.scheduling.plain.objects import Json, spec_of
from tests.accounting.scheduling.plain.plugin import Cycle, Plugin
from tests.accounting.scheduling.plain.status import SKIP, SUCCESS, Status, unschedulable

_ANY_ADDRESS = "0.0.0.0"  # noqa: S104: what stands in a pod, not where something listens

Port = tuple[str, str, int]
"""Address, protocol and number."""


class NodePorts(Plugin):
    """Ports of the host are taken once."""

    name = "NodePorts"

    def pre_filter(self, _cycle: Cycle, pod: PodInfo) -> tuple[set[str] | None, Status]:
        """NodePorts.PreFilter."""
        return None, SUCCESS if host_ports(pod.pod) else SKIP

    def filter(self, _cycle: Cycle, pod: PodInfo, node: NodeInfo) -> Status:
        """NodePorts.Filter, fitsPorts."""
        taken = [port for other in node.pods for port in _used_ports(other.pod)]
        if any(_conflict(wanted, used) for wanted in host_ports(pod.pod) for used in taken):
            return unschedulable("node(s) didn't have free ports for the requested pod ports")
        return SUCCESS


def host_ports(pod: Json) -> list[Port]:
    """GetHostPorts: those of containers and sidecars."""
    init = [each for each in spec_of(pod).get("initContainers") or [] if each.get("restartPolicy") == "Always"]
    containers = init + (spec_of(pod).get("containers") or [])
    return [_port(each) for container in containers for each in container.get("ports") or [] if each.get("hostPort")]


def _used_ports(pod: Json) -> list[Port]:
    """NodeInfo.updateUsedPorts."""
    return host_ports(pod)


def _port(port: Json) -> Port:
    """HostPortInfo.sanitize; with the host's network a port without a host port has its own number."""
    return port.get("hostIP") or _ANY_ADDRESS, port.get("protocol") or "TCP", int(port["hostPort"])


def _conflict(wanted: Port, used: Port) -> bool:
    """HostPortInfo.CheckConflict: the address for all of them is every address."""
    (address, *port), (other, *taken) = wanted, used
    return port == taken and (address == other or _ANY_ADDRESS in (address, other))
