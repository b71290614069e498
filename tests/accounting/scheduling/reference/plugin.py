"""Plugins and their state in one scheduling cycle (kube-scheduler framework/interface.go, cycle_state.go)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.accounting.scheduling.reference.cluster import Cluster, NodeInfo, PodInfo
from tests.accounting.scheduling.reference.status import SUCCESS, Status


@dataclass(slots=True)
class Cycle:
    """CycleState, with the snapshot of its cycle, and the minor version of Kubernetes."""

    cluster: Cluster
    states: dict[str, Any] = field(default_factory=dict)
    skipped: set[str] = field(default_factory=set)
    minor: int = 36

    def clone(self) -> Cycle:
        """Implement CycleState.Clone: copy the plugins' counts and share the rest."""
        copies = {name: state.clone() if hasattr(state, "clone") else state for name, state in self.states.items()}
        return Cycle(self.cluster, copies, self.skipped, self.minor)


class Plugin:
    """A plugin; without PreFilter or Filter it accepts every node there."""

    name = ""

    def pre_filter(self, _cycle: Cycle, _pod: PodInfo) -> tuple[set[str] | None, Status]:
        """Return the names of the eligible nodes, None for all, and the status."""
        return None, SUCCESS

    def filter(self, _cycle: Cycle, _pod: PodInfo, _node: NodeInfo) -> Status:
        """Return whether the pod fits this node."""
        return SUCCESS

    def count(self, cycle: Cycle, pod: PodInfo, other: PodInfo, node: NodeInfo, by: int) -> None:
        """Implement AddPod (by 1) and RemovePod (by -1), for another pod of a node."""
