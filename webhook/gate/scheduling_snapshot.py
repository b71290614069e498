"""Schedulability check of incoming pods: whether nodes advertise their resources, and can run them ever, or now.

It uses the columns of `tallygate predict`. Only facts count against a pod. There is no verdict if the cluster is
unknown or its data is too old, or if a feature of the pod is not modelled.

The columns and numpy are imported at the first check, since they take a third of the start time of a check of
manifests, and a process without a cluster does not need them. A server imports `webhook.gate.schedulability` before its
first request.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Protocol

import msgspec

from webhook.admission.request import AdmissionRequest
from webhook.admission.rule_index import Labels, RuleIndex
from webhook.admission.verdict import ALLOWED, Verdict

if TYPE_CHECKING:
    from webhook.accounting.cluster.cluster import Cluster


class ClusterSnapshot(msgspec.Struct, frozen=True):
    """A cluster as it was `age_seconds` ago.

    Without `has_pods` no rule evaluates the current free amounts. Without `has_devices` no rule evaluates names that no
    node advertises: device classes may provide them.
    """

    cluster: "Cluster"
    age_seconds: float = 0.0
    has_pods: bool = True
    has_devices: bool = True


class SnapshotProvider(Protocol):
    """A source of a cluster's nodes, and the pods on them."""

    def is_available(self) -> bool:
        """Return whether a snapshot exists now: otherwise the caller avoids the cost of preparing the check."""
        ...

    def open_snapshot(self, *, pods: bool) -> AbstractContextManager[ClusterSnapshot | None]:
        """Yield the cluster for exclusive use in the block; None if its current state is unknown.

        With `pods` the snapshot also needs the pods on the nodes.
        """
        ...


class FixedSnapshot:
    """A cluster that does not change, for one thread.

    Without `has_pods` no rule evaluates the current free amounts.
    """

    def __init__(self, cluster: "Cluster", *, has_pods: bool = True, has_devices: bool = True) -> None:
        self._cluster = cluster
        self._has_pods = has_pods
        self._has_devices = has_devices

    def is_available(self) -> bool:
        """Return True: the snapshot always exists."""
        return True

    @contextmanager
    def open_snapshot(self, *, pods: bool) -> Iterator[ClusterSnapshot | None]:
        """Yield the cluster."""
        yield ClusterSnapshot(self._cluster, has_pods=pods and self._has_pods, has_devices=self._has_devices)


def check_schedulability(
    request: AdmissionRequest, index: RuleIndex, labels: Labels | None, snapshots: SnapshotProvider
) -> Verdict:
    """Return the verdict of the rules that check nodes, on the pods that a request creates.

    `labels` are those of the request's namespace, None if they are unknown.

    Raises:
        ReviewError: if an object is not of the kind that it states.
    """
    selection = index.select(request.kind, request.namespace, labels) if index.has_node_rules else None
    if selection is None or not selection.node_rules or not snapshots.is_available():
        return ALLOWED
    from webhook.gate.schedulability import evaluate_schedulability  # noqa: PLC0415  see the module's docstring

    return evaluate_schedulability(request, selection, snapshots)
