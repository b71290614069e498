"""What a filter says: which nodes it rejects, in the scheduler's words, and whether others' leaving could help."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.fit.incoming import Incoming

Places = NDArray[np.intp]
"""Places of nodes in a cluster's columns."""

Mask = NDArray[np.bool_]
"""One truth for each of some places, in their order."""


@dataclass(frozen=True, slots=True, eq=False)
class Rejection:
    """Some of the nodes that were asked about: `nodes` says which, `for_good` on which of these no pod's leaving helps.

    `plugin` is whose filter says so; who asks the filter fills it in. `is_fault` when the filter fails, for which
    the scheduler gives the whole attempt up.
    (Unschedulable and UnschedulableAndUnresolvable in kube-scheduler framework/interface.go, v1.36.)
    """

    reason: str
    nodes: Mask
    for_good: Mask
    plugin: str = ""
    is_fault: bool = False


Filter = Callable[[Incoming, Cluster, Places], Iterable[Rejection]]
"""Judges a pod on nodes. Those that it does not reject pass. A reason that rejects none may be left out."""


def for_good(reason: str, nodes: Mask) -> Rejection:
    """A rejection that nobody's leaving changes."""
    return Rejection(reason, nodes, nodes)


def for_now(reason: str, nodes: Mask) -> Rejection:
    """A rejection that somebody's leaving may change."""
    return Rejection(reason, nodes, np.zeros(len(nodes), dtype=np.bool_))
