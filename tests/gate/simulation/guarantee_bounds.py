"""The bounds of every write under a cap with guarantees, by plain arithmetic over pods and reservations (rule 15)."""

from collections.abc import Collection, Iterator, Mapping

from tallygate.accounting.amounts import NO_AMOUNTS
from tallygate.state.ledger.ledger import Ledger, Operation
from tallygate.state.ports import LedgerKey
from tests.gate.simulation.ground_truth import GroundTruth, hash_members
from tests.state.informers.pods import GPU


class GuaranteeBounds:
    """The last version of each ledger, in worlds with pods alone."""

    def __init__(self, truth: GroundTruth) -> None:
        self._truth = truth
        self._last: dict[LedgerKey, Ledger] = {}

    def list_violations(self, key: LedgerKey, ledger: Ledger) -> Iterator[str]:
        """Yield whether a ledger counts a namespace with a guarantee wrongly, and whether a write takes a guarantee."""
        before = self._last.get(key)
        self._last[key] = ledger
        if ledger is before or ledger.initializer or not ledger.guarantees.used:
            return
        members = self._find_members(ledger)
        used = dict.fromkeys(members, 0)
        for pod in self._truth.list_pods_at(ledger.pods_revision).values():
            if pod.namespace in used:
                used[pod.namespace] += pod.used
        for name, amounts in ledger.guarantees.used.items():
            if name not in used:
                yield f"member: {name} is no member, and has a guarantee"
            elif amounts.get(GPU, 0) != used[name]:
                yield f"part: {amounts.get(GPU, 0)} is counted for {name}, which uses {used[name]}"
        if before is not None and not before.initializer:
            yield from self._list_taken(before, ledger, used)

    def _find_members(self, ledger: Ledger) -> Collection[str]:
        return next((each for each in self._truth.memberships if hash_members(each) == ledger.namespaces_hash), ())

    def _list_taken(self, before: Ledger, ledger: Ledger, used: Mapping[str, int]) -> Iterator[str]:
        """Yield whether the new pods of one write take guarantees: the last of them has passed the guard.

        A write is left out if other reservations grow: changes that add nothing pass no guard, and nor does a recount.
        """
        grown = {
            uid: each
            for uid, each in ledger.reservations.items()
            if each.compute_reserved().get(GPU, 0) > _get_reserved(before, uid)
        }
        if any(uid in before.reservations or each.operation is not Operation.CREATE for uid, each in grown.items()):
            return
        writers = {each.namespace for each in grown.values()}
        guaranteed = {
            name: min(amounts.get(GPU, 0), before.guarantees.amounts.get(name, NO_AMOUNTS).get(GPU, 0))
            for name, amounts in ledger.guarantees.amounts.items()
        }
        charged = dict(used)
        for name, reserved in ledger.reserved_by_namespace.items():
            charged[name] = charged.get(name, 0) + reserved.get(GPU, 0)
        unspent = {name: max(0, amount - charged.get(name, 0)) for name, amount in guaranteed.items()}
        total, hard = sum(charged.values()) + sum(unspent.values()), max(before.hard[GPU], ledger.hard[GPU])
        if writers and total - max(unspent.get(name, 0) for name in writers) > hard:
            yield f"guaranteed: {sorted(writers)} take what is guaranteed to others: {charged}, unspent {unspent}"


def _get_reserved(ledger: Ledger, uid: str) -> int:
    reservation = ledger.reservations.get(uid)
    return 0 if reservation is None else reservation.compute_reserved().get(GPU, 0)
