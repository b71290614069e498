"""Which nodes have a resource at all, and what there is on nodes."""

from collections.abc import Sequence

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.fit.rejection import Mask


def is_advertised(cluster: Cluster, resource: str) -> bool:
    """Whether some node has any of a resource."""
    advertising = _mask_advertising(cluster, resource)
    return advertising is not None and bool(advertising.any())


def list_advertising_nodes(cluster: Cluster, resource: str, max_count: int) -> Sequence[str]:
    """The names of so many of the nodes that have any of a resource, the first in order."""
    advertising = _mask_advertising(cluster, resource)
    nodes = [] if advertising is None else cluster.nodes.get_indices()[advertising].tolist()
    return sorted(map(cluster.nodes.get_name, nodes))[:max_count]


def list_advertised_resources(cluster: Cluster) -> Sequence[str]:
    """Every resource of which some node has any, in order."""
    return sorted(name for name in cluster.nodes.list_resources() if is_advertised(cluster, name))


def _mask_advertising(cluster: Cluster, resource: str) -> Mask | None:
    column = cluster.nodes.find_allocatable_column(resource)
    return None if column is None else column.array[cluster.nodes.get_indices()] > 0
