"""The message for a pod that fits nowhere (framework/types.go FitError, framework/interface.go NodeToStatus)."""

from collections import Counter
from dataclasses import dataclass, field

from tests.accounting.scheduling.reference.cluster import Cluster, NodeInfo
from tests.accounting.scheduling.reference.status import Code, Status, unresolvable


@dataclass(slots=True)
class NodeToStatus:
    """The status of each evaluated node, and the status of all other nodes."""

    explicit: dict[str, Status] = field(default_factory=dict)
    absent: Status = field(default_factory=unresolvable)

    def get(self, name: str) -> Status:
        """Return the status of a node (NodeToStatus.Get)."""
        return self.explicit.get(name, self.absent)

    def list_nodes(self, cluster: Cluster, code: Code) -> list[NodeInfo]:
        """Return the nodes with a code (NodesForStatusCode)."""
        return [each for each in cluster.nodes if self.get(each.name).code is code]


def format_fit_error(nodes: int, statuses: NodeToStatus, *, pre_filter: str = "", post_filter: str = "") -> str:
    """Return FitError.Error: reasons with their counts, sorted as text."""
    reasons = Counter(reason for status in statuses.explicit.values() for reason in status.reasons)
    for reason in statuses.absent.reasons:
        reasons[reason] += max(nodes - len(statuses.explicit), 0)
    histogram = ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items() if count))
    summary = pre_filter or histogram
    parts = [f"0/{nodes} nodes are available:", f"{summary}." if summary else "", post_filter]
    return " ".join(each for each in parts if each)
