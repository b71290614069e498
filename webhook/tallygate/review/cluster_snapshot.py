"""Snapshots of a cluster for rules that compare pods with nodes."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

import msgspec

from tallygate.accounting.cluster.cluster import Cluster


class ClusterSnapshot(msgspec.Struct, frozen=True):
    """A cluster as it was `age_seconds` ago.

    Without `has_pods` no rule evaluates the current free amounts. Without `has_devices` no rule evaluates names that no
    node advertises: device classes may provide them. Without `has_pools` nor does it evaluate these, or nodes that may
    never run a pod: pools that are not known may have such nodes.
    """

    cluster: Cluster
    age_seconds: float = 0.0
    has_pods: bool = True
    has_devices: bool = True
    has_pools: bool = True


class SnapshotProvider(Protocol):
    """A source of a cluster's nodes, and the pods on them."""

    def open_snapshot(self, *, pods: bool) -> AbstractContextManager[ClusterSnapshot | None]:
        """Yield the cluster for exclusive use in the block; None if its current state is unknown.

        With `pods` the snapshot also needs the pods on the nodes.
        """
        ...

    def request_devices(self) -> None:
        """Read the devices of the cluster for later snapshots, since a pod needs them and its snapshot has none."""
        ...


class FixedSnapshot:
    """A cluster that does not change, for one thread.

    Without `has_pods` no rule evaluates the current free amounts.
    """

    def __init__(
        self, cluster: Cluster, *, has_pods: bool = True, has_devices: bool = True, has_pools: bool = True
    ) -> None:
        self._cluster = cluster
        self._has_pods = has_pods
        self._has_devices = has_devices
        self._has_pools = has_pools

    @contextmanager
    def open_snapshot(self, *, pods: bool) -> Iterator[ClusterSnapshot | None]:
        """Yield the cluster."""
        has_pods = pods and self._has_pods
        yield ClusterSnapshot(
            self._cluster, has_pods=has_pods, has_devices=self._has_devices, has_pools=self._has_pools
        )

    def request_devices(self) -> None:
        """Do nothing: the cluster has all that is known."""
