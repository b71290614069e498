"""Resources that a node advertises beside those that its kubelet finds by itself: read and written."""

from typing import Any

from e2e.api import api
from e2e.ports import AdvertisedResources, Cluster, Resources
from e2e.waiting import until

DONGLES = {"example.com/dongle": "4"}
"""The resources of every site's node for the cases."""

_NATIVE = frozenset({"cpu", "memory", "pods", "ephemeral-storage"})
_WITHIN = 240.0  # seconds; a kubelet with an older node may overwrite the patch until it syncs again


def read_advertised(cluster: Cluster, node: str) -> AdvertisedResources:
    """Return what a node advertises now.

    Raises:
        ClusterError: if the node cannot be read.
    """
    status: dict[str, Resources] = api(cluster.kubeconfig).get(f"/api/v1/nodes/{node}")["status"]
    return AdvertisedResources(
        _select_extended(status.get("capacity", {})), _select_extended(status.get("allocatable", {}))
    )


def advertise(cluster: Cluster, node: str, wanted: AdvertisedResources) -> None:
    """Set what a node advertises, and nothing else; return once it does.

    Raises:
        ClusterError: if the node cannot be read or changed, or does not keep it.
    """

    def does() -> bool:
        now = read_advertised(cluster, node)
        if now == wanted:
            return True
        api(cluster.kubeconfig).patch(f"/api/v1/nodes/{node}/status", {"status": _patch(now, wanted)})
        return False

    until(f"{node} advertises what was asked", does, _WITHIN)


def _select_extended(resources: Resources) -> Resources:
    return {name: much for name, much in resources.items() if name not in _NATIVE and not name.startswith("hugepages-")}


def _patch(now: AdvertisedResources, wanted: AdvertisedResources) -> dict[str, Any]:
    return {
        "capacity": _difference(now.capacity, wanted.capacity),
        "allocatable": _difference(now.allocatable, wanted.allocatable),
    }


def _difference(now: Resources, wanted: Resources) -> dict[str, str | None]:
    """Return the difference as a merge patch (RFC 7386)."""
    removed: dict[str, str | None] = {name: None for name in now if name not in wanted}
    return removed | {name: much for name, much in wanted.items() if now.get(name) != much}
