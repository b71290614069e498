"""How the scheduler likes nodes while copies of one pod fill them, worked out some copies ahead.

Of a single node it takes as long as of a hundred. A node that has taken one copy will soon take more, so that it is
asked about the next ones too, in one go.
"""

import numpy as np

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.cluster.pod_info import SchedulingGroup
from webhook.accounting.fit import scores
from webhook.accounting.fit.incoming import IncomingPod
from webhook.accounting.fit.rejection import NodeIndices
from webhook.accounting.fit.scores import AssumedCopies, Scores, Scoring

_LOOKAHEAD = 16


def score_nodes(
    pod: IncomingPod,
    cluster: Cluster,
    nodes: NodeIndices,
    scoring: Scoring = scores.DEFAULT_SCORING,
    assumed: AssumedCopies | None = None,
) -> Scores:
    """How the scheduler likes these nodes by their resources: the scores of its profile that depend on them."""
    fit_scores = scores.score_allocation(pod, cluster, nodes, scoring, assumed)
    return fit_scores + scores.score_balance(pod, cluster, nodes, assumed=assumed)


class ScoreLookahead:
    """Scores of nodes for one copy more. Nobody but who asks puts anything on nodes meanwhile, and only copies."""

    def __init__(self, pod: IncomingPod, group: SchedulingGroup, cluster: Cluster, scoring: Scoring) -> None:
        self._pod, self._group, self._cluster, self._scoring = pod, group, cluster, scoring
        self._upcoming: dict[int, list[int]] = {}

    def score(self, nodes: NodeIndices) -> Scores:
        """The scores of these nodes."""
        return score_nodes(self._pod, self._cluster, nodes, self._scoring)

    def score_next(self, node_index: int) -> int:
        """The score of a node that has just taken a copy."""
        upcoming = self._upcoming.get(node_index)
        if not upcoming:
            assumed = AssumedCopies(self._group, np.arange(_LOOKAHEAD))
            upcoming_scores = score_nodes(
                self._pod, self._cluster, np.full(_LOOKAHEAD, node_index), self._scoring, assumed
            )
            upcoming = self._upcoming[node_index] = upcoming_scores.tolist()[::-1]
        return upcoming.pop()
