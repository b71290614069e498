"""The pools of Karpenter in the scheduler cache, as their watches change, and the nodes of groups with their pool."""

import json
from typing import Any

import pytest

from tallygate.accounting.node_shape import NodeShape
from tallygate.kube.api_errors import ApiError
from tallygate.kube.resource_codec import Replaced
from tallygate.state.informers.named_stores import (
    NODE_CLAIM_CODEC,
    NODE_CODEC,
    NODE_POOL_CODEC,
    DeviceClassStore,
    NamespaceStore,
    NodeClaimStore,
    NodePoolStore,
    NodeStore,
)
from tallygate.state.informers.scheduler_cache import SchedulerCache

Json = dict[str, Any]
_POOL = {"karpenter.sh/nodepool": "gpu"}
_OWNER = "cluster.x-k8s.io/owner-name"


class PoolWatches:
    """A scheduler cache whose watches of nodes, NodePools and NodeClaims a test drives."""

    def __init__(self) -> None:
        self.nodes = NodeStore()
        self.node_pools, self.node_claims = NodePoolStore(), NodeClaimStore()
        self.cache = SchedulerCache(self.nodes, NamespaceStore(), DeviceClassStore(), self.node_pools, self.node_claims)
        self._revision = 1
        for store in (self.nodes, self.node_pools, self.node_claims):
            store.apply(Replaced([], 1))

    def deliver(self, what: str, kind: str, name: str, meta: Json | None = None, **content: Any) -> None:
        """Deliver a line of the watch of nodes, pools or claims."""
        self._revision += 1
        metadata = {"name": name, "uid": name, "resourceVersion": str(self._revision), **(meta or {})}
        line = json.dumps({"type": kind, "object": {"metadata": metadata, **content}}).encode()
        if what == "node":
            self.nodes.apply(NODE_CODEC.decode_event(line))
        elif what == "pool":
            self.node_pools.apply(NODE_POOL_CODEC.decode_event(line))
        else:
            self.node_claims.apply(NODE_CLAIM_CODEC.decode_event(line))

    def list_shapes(self) -> tuple[NodeShape, ...]:
        """Return the shapes of the pools."""
        with self.cache.acquire(1.0) as cluster:
            assert cluster is not None
            return cluster.pools.list_shapes()

    def describe(self) -> list[tuple[str, int | None]]:
        """Return each shape with its CPUs in thousandths; None if they are not known."""
        return [(each.name, None if each.is_unsized else each.get_amount("cpu")) for each in self.list_shapes()]


def test_a_pool_is_followed_from_its_first_claim_to_its_end() -> None:
    watches = PoolWatches()
    watches.deliver("pool", "ADDED", "gpu", spec={"template": {"spec": {}}})
    assert watches.describe() == [("nodepool/gpu", None)]
    watches.deliver("claim", "ADDED", "c", {"labels": _POOL}, spec={})
    assert watches.describe() == [("nodepool/gpu", None)]
    watches.deliver("claim", "MODIFIED", "c", {"labels": _POOL}, status={"allocatable": {"cpu": "4"}})
    assert watches.describe() == [("nodepool/gpu", 4000)]
    watches.deliver("node", "ADDED", "n", {"labels": _POOL}, status={"allocatable": {"cpu": "3"}})
    assert watches.describe() == [("nodepool/gpu", 3000)]
    watches.deliver("claim", "DELETED", "c", {"labels": _POOL})
    watches.deliver("node", "DELETED", "n", {"labels": _POOL})
    assert watches.describe() == [("nodepool/gpu", 3000)]
    watches.node_pools.apply(Replaced([], 99))  # the definition of NodePools was removed
    assert watches.describe() == []


def test_a_node_with_an_invalid_quantity_is_in_no_pool() -> None:
    watches = PoolWatches()
    watches.deliver("node", "ADDED", "n", {"labels": _POOL}, status={"allocatable": {"cpu": "3"}})
    watches.deliver("node", "MODIFIED", "n", {"labels": _POOL}, status={"allocatable": {"cpu": "three"}})
    assert watches.describe() == [("nodepool/gpu", 3000)]  # as the last node that was seen
    watches.deliver("node", "MODIFIED", "n", {"labels": _POOL}, status={"allocatable": {"cpu": "5"}})
    assert watches.describe() == [("nodepool/gpu", 5000)]


def test_the_newest_node_of_a_group_by_annotation_gives_its_amounts() -> None:
    watches = PoolWatches()
    for name, day, cpu in (("old", 1, "8"), ("new", 2, "4")):
        meta = {"annotations": {_OWNER: "w", "other": "x"}, "creationTimestamp": f"2026-01-0{day}T00:00:00Z"}
        watches.deliver("node", "ADDED", name, meta, status={"allocatable": {"cpu": cpu}})
    assert watches.describe() == [("nodegroup/w", 4000)]
    kept = [record.content for record in watches.nodes.list_records()]
    assert all(b"other" not in each and b"creationTimestamp" in each for each in kept)


@pytest.mark.parametrize("codec", [NODE_POOL_CODEC, NODE_CLAIM_CODEC])
def test_an_object_without_a_name_makes_its_page_invalid(codec: Any) -> None:
    with pytest.raises(ApiError, match="without uid or name"):
        codec.decode_page(b'{"metadata":{"resourceVersion":"7"},"items":[{"metadata":{"uid":"u"}}]}')
