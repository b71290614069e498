"""The time since which the pods and claims under a ledger have exceeded a limit, as far as they show it by themselves.

No object has that time. But a pod has had its amounts since its creation: extended resources of a pod never change
(k8s.io/kubernetes pkg/apis/core/validation, ValidatePodUpdate and ValidatePodResize, v1.36). So those that count now
and were created by a time exceed the limit of now since that time, or for longer, where pods that have ended counted
too. Amounts that may have changed since show nothing: those of cpu and memory, of annotations, of reservations, and of
allocated devices, also where kube-scheduler made their claim for a pod.
"""

from collections.abc import Collection, Iterable, Iterator
from datetime import UTC, datetime
from operator import itemgetter
from typing import Final

from tallygate.accounting.amounts import Amounts
from tallygate.accounting.names import LIMITS_PREFIX, REQUESTS_PREFIX
from tallygate.admission.cap_index import ActiveCap
from tallygate.cluster.cluster_state import ClusterState
from tallygate.cluster.consumers import CountedClaim
from tallygate.state.ledger.ledger import Ledger

_RESIZABLE: Final = frozenset({"cpu", "memory"})


class AmountHistory:
    """The amounts under a ledger with the time from which on each has counted; it is made once for all resources."""

    def __init__(self, state: ClusterState, cap: ActiveCap, namespaces: Collection[str], ledger: Ledger | None) -> None:
        """Take what the pods and claims of the member namespaces of a ledger count."""
        self._cap = cap.definition
        claims = state.list_claims(cap, namespaces, ledger)
        amounts = [*state.pods.list_amounts_by_creation(cap, namespaces), *_list_claimed(claims)]
        self._amounts = sorted(amounts, key=itemgetter(0))

    def find_exceeded(self, name: str, limit: int) -> datetime | None:
        """Return the time since which a limit has been exceeded at least; None if nothing shows it."""
        if not self._is_fixed(name):
            return None
        total = 0
        for created, amounts, number in self._amounts:
            total += amounts.get(name, 0) * number
            if total > limit:
                return datetime.fromtimestamp(created, UTC)
        return None

    def _is_fixed(self, name: str) -> bool:
        """Return whether the amounts of a pod under a name never change."""
        count = self._cap.counts.get(name)
        if count is not None and count.annotation:
            return False
        resources = (name,) if count is None else count.resources
        return not any(
            each.removeprefix(LIMITS_PREFIX).removeprefix(REQUESTS_PREFIX) in _RESIZABLE for each in resources
        )


def _list_claimed(claims: Iterable[CountedClaim]) -> Iterator[tuple[int, Amounts, int]]:
    """Yield the times of creation, in seconds since 1970, of claims that have counted their amounts since then."""
    for each in claims:
        if each.claim.created and not each.pod_uid and not each.allocated.devices:
            yield each.claim.created, each.counted, 1
