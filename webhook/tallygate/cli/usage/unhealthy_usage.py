"""The unhealthy devices besides the usage: which resources are asked about, and their text."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from tallygate.accounting.names import LIMITS_PREFIX, is_extended
from tallygate.accounting.node_fit import UnhealthyDevices, format_unhealthy
from tallygate.cluster.cluster_state import ClusterState
from tallygate.cluster.kinds import NODES
from tallygate.policy.model import NamespaceCap


def select_resources(names: Iterable[str]) -> frozenset[str]:
    """Return the extended resources among the names of limits, for each limit of `limits.` the resource itself."""
    return frozenset(filter(is_extended, (name.removeprefix(LIMITS_PREFIX) for name in names)))


def may_count_devices(caps: Sequence[NamespaceCap]) -> bool:
    """Return whether a cap counts an extended resource; True too without caps, since ledgers have their names."""
    return not caps or any(select_resources(cap.list_requested_names()) for cap in caps)


def list_unknown_health(cluster: ClusterState, resources: frozenset[str]) -> Iterator[str]:
    """Yield a note if unhealthy devices of these resources are unknown."""
    if resources:
        yield from cluster.list_effects((NODES,))


def format_by_resource(unhealthy: Sequence[UnhealthyDevices]) -> Iterator[str]:
    """Yield a line for each resource; `unhealthy` is sorted by resource."""
    for _, devices in groupby(unhealthy, lambda each: each.resource):
        yield format_unhealthy(tuple(devices))
