"""What a node advertises beside what its kubelet finds by itself: read, and made to be so."""

from typing import Any

from e2e.api import api
from e2e.ports import Advertised, Cluster, Resources
from e2e.waiting import until

DONGLES = {"example.com/dongle": "4"}
"""What every site's node has for the cases."""

_NATIVE = frozenset({"cpu", "memory", "pods", "ephemeral-storage"})
_WITHIN = 240.0  # seconds; a kubelet that looks at an older node may write over what was patched, until it looks again


def advertised(cluster: Cluster, node: str) -> Advertised:
    """What a node advertises now.

    Raises:
        ClusterError: the node cannot be read.
    """
    status: dict[str, Resources] = api(cluster.kubeconfig).get(f"/api/v1/nodes/{node}")["status"]
    return Advertised(_given(status.get("capacity", {})), _given(status.get("allocatable", {})))


def advertise(cluster: Cluster, node: str, wanted: Advertised) -> None:
    """Let a node advertise this and nothing else; return once it does.

    Raises:
        ClusterError: the node cannot be read or changed, or does not keep it.
    """

    def does() -> bool:
        now = advertised(cluster, node)
        if now == wanted:
            return True
        api(cluster.kubeconfig).patch(f"/api/v1/nodes/{node}/status", {"status": _patch(now, wanted)})
        return False

    until(f"{node} advertises what was asked", does, _WITHIN)


def _given(resources: Resources) -> Resources:
    return {name: much for name, much in resources.items() if name not in _NATIVE and not name.startswith("hugepages-")}


def _patch(now: Advertised, wanted: Advertised) -> dict[str, Any]:
    return {
        "capacity": _difference(now.capacity, wanted.capacity),
        "allocatable": _difference(now.allocatable, wanted.allocatable),
    }


def _difference(now: Resources, wanted: Resources) -> dict[str, str | None]:
    """As a merge patch (RFC 7386)."""
    gone: dict[str, str | None] = {name: None for name in now if name not in wanted}
    return gone | {name: much for name, much in wanted.items() if now.get(name) != much}
