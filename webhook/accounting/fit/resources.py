"""Resources of nodes: the columns' side of `webhook.accounting.node_fit`, and ports.

Source: fitsRequest in plugins/noderesources/fit.go and plugins/nodeports/node_ports.go, v1.36.
"""

from collections.abc import Iterator

import numpy as np

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.cluster.pod_info import HostPort
from webhook.accounting.fit.incoming import Incoming
from webhook.accounting.fit.rejection import Mask, Places, Rejection, for_now
from webhook.accounting.node_fit import Shortfall

_PODS = "pods"
PORTS_TAKEN = "node(s) didn't have free ports for the requested pod ports"
"""What a node says on which a port is taken."""


def insufficient(pod: Incoming, cluster: Cluster, places: Places) -> Iterator[Rejection]:
    """Nodes that lack room for one more pod, or for something that it asks for: all that each lacks."""
    nodes, nothing = cluster.nodes, np.zeros(len(places), dtype=np.int64)
    room = nodes.find_allocatable_column(_PODS)
    most = nothing if room is None else room.array[places]
    yield for_now("Too many pods", _over(1, most - nodes.pods.array[places]))
    for name, asked in pod.requests.items():
        has, used = nodes.find_allocatable_column(name), nodes.find_used_column(name)
        capacity = nothing if has is None else has.array[places]
        free = capacity if used is None else capacity - used.array[places]
        lacking = _over(asked, free)
        lacking &= ~handed_out(cluster, places, name)
        if lacking.any():
            yield Rejection(f"Insufficient {name}", lacking, lacking & _over(asked, capacity))


def handed_out(cluster: Cluster, places: Places, resource: str) -> Mask:
    """On which of these nodes devices stand for a resource, so that another plugin is asked (DynamicResources)."""
    if cluster.device_classes.find_class(resource) is None:
        return np.zeros(len(places), dtype=np.bool_)
    has = cluster.nodes.find_allocatable_column(resource)
    return np.ones(len(places), dtype=np.bool_) if has is None else np.asarray(has.array[places] == 0, dtype=np.bool_)


def shortfalls(pod: Incoming, cluster: Cluster, place: int) -> tuple[Shortfall, ...]:
    """What one node lacks for the pod, in numbers."""
    nodes = cluster.nodes
    has, uses = nodes.get_allocatable(place), nodes.get_used(place)
    pods, most = nodes.pods[place], has.get(_PODS, 0)
    crowded = [Shortfall(_PODS, 1, pods, most, unresolvable=False)] if pods + 1 > most else []
    lacking = [
        Shortfall(name, asked, uses.get(name, 0), has.get(name, 0), unresolvable=asked > has.get(name, 0))
        for name, asked in pod.requests.items()
        if asked > has.get(name, 0) - uses.get(name, 0)
        and (has.get(name) or cluster.device_classes.find_class(name) is None)
    ]
    return (*crowded, *lacking)


def shortness(pod: Incoming, cluster: Cluster, place: int) -> float:
    """How much a node lacks, in parts of what the pod asks for; 0 where there is room. Good for an order only."""
    return sum(each.short / each.requested for each in shortfalls(pod, cluster, place))


def ports_taken(pod: Incoming, cluster: Cluster, places: Places) -> Iterator[Rejection]:
    """Nodes on which a port that the pod wants is taken, at its address or at every address."""
    if not pod.ports:
        return
    taken = np.zeros(cluster.nodes.size, dtype=np.bool_)
    free = _thought_free(cluster)
    for port in pod.ports:
        for place, addresses in cluster.get_port_users(port).items():
            left = (
                addresses.keys()
                if not free
                else {each for each in addresses if (place, port.with_address(each)) not in free}
            )
            taken[place] |= any(port.has_conflict(address) for address in left)
    yield for_now(PORTS_TAKEN, taken[places])


def _thought_free(cluster: Cluster) -> set[tuple[int, HostPort]]:
    """Ports that are free at a place because a pod is thought away that has them, whoever has them beside it.

    The scheduler keeps a node's ports in a set (HostPortInfo), which the last pod to come or go decides on.
    """
    free: set[tuple[int, HostPort]] = set()
    for pod, more in cluster.fork_changes.values():
        ports = {(cluster.nodes.acquire_index(pod.node), port) for port in pod.group.ports}
        free = free | ports if more < 0 else free - ports
    return free


def _over(asked: int, free: "np.typing.NDArray[np.int64]") -> Mask:
    """Where more is asked for than is free; exact for numbers of any size."""
    return np.asarray(free < asked, dtype=np.bool_)
