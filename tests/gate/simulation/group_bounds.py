"""PodGroups: the first pod of one is admitted with room for all, and no reservation is made for one that has started.

It is computed from stored objects and views.
"""

from collections.abc import Iterator

from tallygate.state.ledger.ledger import Ledger, Operation
from tallygate.state.ports import LedgerKey
from tests.gate.simulation.attempts import Attempt, Attempts
from tests.gate.simulation.cluster_objects import Group
from tests.gate.simulation.ground_truth import GroundTruth
from tests.state.informers.pods import GPU


class GroupBounds:
    """The last version of each ledger."""

    def __init__(self, truth: GroundTruth, attempts: Attempts) -> None:
        self._truth = truth
        self._attempts = attempts
        self._last: dict[LedgerKey, Ledger] = {}

    def list_violations(self, key: LedgerKey, ledger: Ledger) -> Iterator[str]:
        """Yield the pods that were admitted without their group, and the groups that were reserved for again."""
        before = self._last.get(key)
        self._last[key] = ledger
        if before is None or before is ledger or before.initializer or ledger.initializer:
            return
        for uid, each in ledger.reservations.items():
            if uid in self._truth.groups and each.requested.get(GPU, 0) > self._truth.groups[uid].size:
                yield f"again: {uid} is reserved for more than once"
            attempt = self._attempts.find(each.attempt)
            if uid in before.reservations or attempt is None or not attempt.request.group:
                continue
            if attempt.request.operation is not Operation.CREATE:
                continue
            group, seen = self._find_group(attempt), self._list_seen(attempt)
            if group is None:
                continue
            if each.workload_kind and seen[0].intersection(*seen):
                yield f"again: {uid} is reserved for, and a replica had seen a pod of it"
            if each.workload != group.uid and group.uid not in ledger.reservations and not any(seen):
                yield f"part: {uid} is admitted without room for the other pods of {group.uid}"

    def _find_group(self, attempt: Attempt) -> Group | None:
        """Return the group of a pod, if it exists since before the attempt."""
        group = self._truth.find_group(attempt.request.namespace, attempt.request.group)
        return group if group is not None and group.created_at < attempt.started_at else None

    def _list_seen(self, attempt: Attempt) -> list[set[str]]:
        """Return the pods of the name of a group that a replica saw, at the begin of an attempt and until now."""
        request = attempt.request
        return [
            {
                pod.uid
                for pod in self._truth.list_pods_at(revision).values()
                if (pod.namespace, pod.group) == (request.namespace, request.group) and not pod.ended
            }
            for revision in range(attempt.seen.pods, attempt.see_now().pods + 1)
        ]
