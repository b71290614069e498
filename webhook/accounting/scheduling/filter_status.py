"""What a filter says: which nodes it rejects, in the scheduler's words, and whether others' leaving could help."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.cluster.columns import Mask, NodeIndices
from webhook.accounting.scheduling.incoming_pod import IncomingPod

"""Places of nodes in a cluster's columns."""


"""One truth for each of some places, in their order."""


@dataclass(frozen=True, slots=True, eq=False)
class FilterStatus:
    """Some of the nodes that were asked about: `nodes` says which, `for_good` on which of these no pod's leaving helps.

    `plugin` is whose filter says so; who asks the filter fills it in. `is_fault` when the filter fails, for which
    the scheduler gives the whole attempt up.
    (Unschedulable and UnschedulableAndUnresolvable in kube-scheduler framework/interface.go, v1.36.)
    """

    reason: str
    rejected: Mask
    unresolvable: Mask
    plugin: str = ""
    is_error: bool = False


Filter = Callable[[IncomingPod, Cluster, NodeIndices], Iterable[FilterStatus]]
"""Judges a pod on nodes. Those that it does not reject pass. A reason that rejects none may be left out."""


def mark_unresolvable(reason: str, rejected: Mask) -> FilterStatus:
    """A rejection that nobody's leaving changes."""
    return FilterStatus(reason, rejected, rejected)


def mark_unschedulable(reason: str, rejected: Mask) -> FilterStatus:
    """A rejection that somebody's leaving may change."""
    return FilterStatus(reason, rejected, np.zeros(len(rejected), dtype=np.bool_))
