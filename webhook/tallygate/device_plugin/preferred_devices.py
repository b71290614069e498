"""The choice of devices for one container: of as few NUMA nodes as possible, shared ones spread.

The kubelet names the available devices and those that it has to include; the answer is a hint for it.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Collection, Mapping, Sequence
from heapq import heapify, heappop, heappush

from tallygate.device_plugin.device_inventory import OfferedDevice


def choose_devices(
    offered: Mapping[str, OfferedDevice], available: Collection[str], must_include: Collection[str], size: int
) -> list[str]:
    """Return `size` IDs of the available ones, sorted: all of `must_include`, then those that are best beside them.

    IDs that are not offered are left out. The result is shorter if the IDs do not suffice.
    """
    chosen = sorted(offered_id for offered_id in set(must_include) if offered_id in offered)[: max(size, 0)]
    free = {offered_id for offered_id in available if offered_id in offered} - set(chosen)
    while len(chosen) < size and free:
        missing = size - len(chosen)
        by_node = _group_by_node(offered, free)
        used_nodes = {offered[offered_id].device.numa for offered_id in chosen}
        node = _choose_node({node: len(ids) for node, ids in by_node.items()}, used_nodes, missing)
        taken = _spread(offered, by_node[node], chosen, missing)
        chosen += taken
        free -= set(taken)
    return sorted(chosen)


def _group_by_node(offered: Mapping[str, OfferedDevice], ids: Collection[str]) -> dict[int | None, list[str]]:
    groups: dict[int | None, list[str]] = defaultdict(list)
    for offered_id in sorted(ids):
        groups[offered[offered_id].device.numa].append(offered_id)
    return groups


def _choose_node(counts: Mapping[int | None, int], used_nodes: Collection[int | None], missing: int) -> int | None:
    """Return a node in use; else the smallest that suffices; else the largest. The lowest number decides a tie."""

    def rank(node: int | None) -> tuple[bool, bool, int, int]:
        suffices = counts[node] >= missing
        return (
            node not in used_nodes,
            not suffices,
            counts[node] if suffices else -counts[node],
            -1 if node is None else node,
        )

    return min(counts, key=rank)


def _spread(offered: Mapping[str, OfferedDevice], ids: Sequence[str], chosen: Sequence[str], count: int) -> list[str]:
    """Return `count` IDs: of shared devices, those that the container has least, then those with most free replicas."""
    uses = Counter(offered[offered_id].device.device_id for offered_id in chosen)
    replicas: dict[str, deque[str]] = defaultdict(deque)
    for offered_id in ids:
        replicas[offered[offered_id].device.device_id].append(offered_id)
    heap = [(uses[device_id], -len(free), device_id) for device_id, free in replicas.items()]
    heapify(heap)
    taken: list[str] = []
    while heap and len(taken) < count:
        used, negative_free, device_id = heappop(heap)
        taken.append(replicas[device_id].popleft())
        if replicas[device_id]:
            heappush(heap, (used + 1, negative_free + 1, device_id))
    return taken
