"""The sentence that says why a pod fits nowhere (framework/types.go FitError, framework/interface.go NodeToStatus)."""

from collections import Counter
from dataclasses import dataclass, field

from tests.accounting.scheduling.reference.cluster import Cluster, NodeInfo
from tests.accounting.scheduling.reference.status import Code, Status, unresolvable


@dataclass(slots=True)
class NodeToStatus:
    """The status of each node that was looked at, and that of all others."""

    explicit: dict[str, Status] = field(default_factory=dict)
    absent: Status = field(default_factory=unresolvable)

    def get(self, name: str) -> Status:
        """NodeToStatus.Get."""
        return self.explicit.get(name, self.absent)

    def nodes_with(self, cluster: Cluster, code: Code) -> list[NodeInfo]:
        """NodesForStatusCode."""
        return [each for each in cluster.nodes if self.get(each.name).code is code]


def fit_error(nodes: int, statuses: NodeToStatus, *, pre_filter: str = "", post_filter: str = "") -> str:
    """FitError.Error: reasons with their counts, sorted as text."""
    reasons = Counter(reason for status in statuses.explicit.values() for reason in status.reasons)
    for reason in statuses.absent.reasons:
        reasons[reason] += max(nodes - len(statuses.explicit), 0)
    histogram = ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items() if count))
    said = pre_filter or histogram
    parts = [f"0/{nodes} nodes are available:", f"{said}." if said else "", post_filter]
    return " ".join(each for each in parts if each)
