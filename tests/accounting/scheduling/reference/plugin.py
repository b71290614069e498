"""What a plugin is, and what it keeps during one cycle (kube-scheduler framework/interface.go, cycle_state.go)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.accounting.scheduling.reference.cluster import Cluster, NodeInfo, PodInfo
from tests.accounting.scheduling.reference.status import SUCCESS, Status


@dataclass(slots=True)
class Cycle:
    """CycleState, with the snapshot that it is about."""

    cluster: Cluster
    states: dict[str, Any] = field(default_factory=dict)
    skipped: set[str] = field(default_factory=set)

    def clone(self) -> Cycle:
        """CycleState.Clone: what plugins count is copied, the rest is shared."""
        copies = {name: state.clone() if hasattr(state, "clone") else state for name, state in self.states.items()}
        return Cycle(self.cluster, copies, self.skipped)


class Plugin:
    """A plugin. One without PreFilter or Filter says yes there."""

    name = ""

    def pre_filter(self, _cycle: Cycle, _pod: PodInfo) -> tuple[set[str] | None, Status]:
        """The names of the nodes that may do, None for all, and how it went."""
        return None, SUCCESS

    def filter(self, _cycle: Cycle, _pod: PodInfo, _node: NodeInfo) -> Status:
        """Whether the pod fits this node."""
        return SUCCESS

    def count(self, cycle: Cycle, pod: PodInfo, other: PodInfo, node: NodeInfo, by: int) -> None:
        """AddPod (by 1) and RemovePod (by -1): another pod came to a node or left it."""
