"""Whether newcomers can be placed: whether nodes have what they name, and are there for them ever, or now.

What `tallygate predict` says, by the same columns. Only what is known is held against a pod: where the cluster is not
known, or is known of too long ago, and where something about the pod cannot be judged, there is no verdict.

Whoever knows no cluster is spared the columns and numpy, a third of what a check of manifests takes to start: they are
imported with the first question. Who answers an API server imports `webhook.gate.schedulability` before that.
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
    """A cluster as it was `age` seconds ago.

    Without `has_pods` nothing is said of how it is now, without `has_devices` nothing of what no node lists: device
    classes may stand for it.
    """

    cluster: "Cluster"
    age_seconds: float = 0.0
    has_pods: bool = True
    has_devices: bool = True


class SnapshotProvider(Protocol):
    """Knows a cluster's nodes, and the pods on them."""

    def is_available(self) -> bool:
        """Whether it is any use to ask for the cluster now: what it costs to prepare a question is spared otherwise."""
        ...

    def open_snapshot(self, *, pods: bool) -> AbstractContextManager[ClusterSnapshot | None]:
        """The cluster, for the caller alone until he leaves; None where it is not known to be so now.

        `pods` when it matters what is on the nodes.
        """
        ...


class FixedSnapshot:
    """A cluster that only one thread looks at, and that is as it says.

    Without `has_pods` nothing is said of how it is now.
    """

    def __init__(self, cluster: "Cluster", *, has_pods: bool = True, has_devices: bool = True) -> None:
        self._cluster = cluster
        self._has_pods = has_pods
        self._has_devices = has_devices

    def is_available(self) -> bool:
        """Always."""
        return True

    @contextmanager
    def open_snapshot(self, *, pods: bool) -> Iterator[ClusterSnapshot | None]:
        """The cluster."""
        yield ClusterSnapshot(self._cluster, has_pods=pods and self._has_pods, has_devices=self._has_devices)


def check_schedulability(
    request: AdmissionRequest, index: RuleIndex, labels: Labels | None, snapshots: SnapshotProvider
) -> Verdict:
    """What the rules say that ask whether there are nodes for the pods which a change brings.

    `labels` are its namespace's, None where nobody knows them.

    Raises:
        ReviewError: an object is not of the kind it says it is.
    """
    selection = index.select(request.kind, request.namespace, labels) if index.has_node_rules else None
    if selection is None or not selection.node_rules or not snapshots.is_available():
        return ALLOWED
    from webhook.gate.schedulability import evaluate_schedulability  # noqa: PLC0415  see the module's docstring

    return evaluate_schedulability(request, selection, snapshots)
