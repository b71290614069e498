"""Stores of Karpenter's NodePools and NodeClaims: the fields that describe the nodes of a pool.

They are optional: an API server without Karpenter does not know them, and they come and go with its definitions.
"""

from typing import Generic, TypeVar

import msgspec

from tallygate.kube.resource_codec import ResourceCodec, parse_revision
from tallygate.objects.karpenter import KarpenterNodePool, NodeClaim
from tallygate.objects.meta import ObjectMeta
from tallygate.state.informers.named_stores import ObjectStore

T = TypeVar("T", KarpenterNodePool, NodeClaim)


class PoolRecord(msgspec.Struct, Generic[T], frozen=True):
    """One NodePool or NodeClaim, with the fields that are read."""

    uid: str
    name: str
    revision: int
    content: T
    namespace: str = ""

    @property
    def compared_value(self) -> object:
        """All stored fields."""
        return self.content


NodePoolStore = ObjectStore[PoolRecord[KarpenterNodePool]]
"""All NodePools as of its revision."""

NodeClaimStore = ObjectStore[PoolRecord[NodeClaim]]
"""All NodeClaims as of its revision."""


def create_pool_record(item: T) -> PoolRecord[T]:
    """Create the record of a stored NodePool or NodeClaim.

    Raises:
        ValueError: if it lacks a field that every stored object has.
    """
    meta = item.metadata
    if meta is None or not meta.uid or not meta.name:
        raise ValueError("a pool or claim of nodes without uid or name")
    kept = ObjectMeta(name=meta.name, labels=meta.labels, creation_timestamp=meta.creation_timestamp)
    content = msgspec.structs.replace(item, metadata=kept)
    return PoolRecord(meta.uid, meta.name, parse_revision(meta.resource_version or ""), content)


def _create_codec(plural: str, kind: type[T]) -> ResourceCodec[T, PoolRecord[T]]:
    path = f"/apis/karpenter.sh/v1/{plural}"
    return ResourceCodec(plural, path, kind, create_pool_record, is_optional=True)


NODE_POOL_CODEC = _create_codec("nodepools", KarpenterNodePool)
NODE_CLAIM_CODEC = _create_codec("nodeclaims", NodeClaim)
