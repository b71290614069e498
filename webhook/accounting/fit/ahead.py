"""How the scheduler likes nodes while copies of one pod fill them, worked out some copies ahead.

Of a single node it takes as long as of a hundred. A node that has taken one copy will soon take more, so that it is
asked about the next ones too, in one go.
"""

import numpy as np

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.cluster.pod_info import SchedulingGroup
from webhook.accounting.fit import scores
from webhook.accounting.fit.incoming import Incoming
from webhook.accounting.fit.rejection import Places
from webhook.accounting.fit.scores import Copies, Scores, Scoring

_AHEAD = 16


def liking(
    pod: Incoming, cluster: Cluster, places: Places, scoring: Scoring = scores.DEFAULT, copies: Copies | None = None
) -> Scores:
    """How the scheduler likes these nodes by their resources: the scores of its profile that depend on them."""
    fit = scores.allocation(pod, cluster, places, scoring, copies)
    return fit + scores.balance(pod, cluster, places, copies=copies)


class Ahead:
    """Scores of nodes for one copy more. Nobody but who asks puts anything on nodes meanwhile, and only copies."""

    def __init__(self, pod: Incoming, shape: SchedulingGroup, cluster: Cluster, scoring: Scoring) -> None:
        self._pod, self._shape, self._cluster, self._scoring = pod, shape, cluster, scoring
        self._next: dict[int, list[int]] = {}

    def now(self, places: Places) -> Scores:
        """The scores of these nodes."""
        return liking(self._pod, self._cluster, places, self._scoring)

    def after(self, place: int) -> int:
        """The score of a node that has just taken a copy."""
        following = self._next.get(place)
        if not following:
            copies = Copies(self._shape, np.arange(_AHEAD))
            found = liking(self._pod, self._cluster, np.full(_AHEAD, place), self._scoring, copies)
            following = self._next[place] = found.tolist()[::-1]
        return following.pop()
