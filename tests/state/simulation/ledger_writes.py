"""Writes of ledgers in flight, and the etcd that commits them."""

from collections.abc import Callable, Mapping

from msgspec import structs

from tests.schedules import pick
from tests.state.simulation.ground_truth import GroundTruth, StoredLedger, Write
from tests.state.simulation.replica_steps import StepFunction
from tests.state.simulation.rules import Rules

_MAX_WRITES = 6


class LedgerWrites:
    """The writes in flight; `token` is that of the current step. `check_ledger` checks the ledger of a stored write."""

    def __init__(self, truth: GroundTruth, rules: Rules, check_ledger: Callable[[Write], None]) -> None:
        self.truth = truth
        self.rules = rules
        self.writes: list[Write] = []
        self.token = 0
        self._check_ledger = check_ledger

    def list_steps(self) -> Mapping[str, StepFunction]:
        """Return each step by the name of its operation."""
        return {
            "arrive": self._arrive,
            "lose": self._lose,
            "stall": self._stall,
            "commit": self._commit,
            "delete_ledger": self._delete_ledger,
        }

    def send(self, write: Write) -> bool:
        """Send a write to etcd; return False if too many are in flight."""
        if len(self.writes) >= _MAX_WRITES:
            return False
        write.token = self.token
        self.writes.append(write)
        return True

    def _arrive(self, a: int, b: int, _c: int) -> str:
        """Let a write arrive in etcd, in any order; its answer may be lost, and it may arrive twice."""
        write = pick(self.writes, a)
        if write is None:
            return ""
        is_repeated, is_lost = b % 16 == 1, b % 5 == 0
        if not is_repeated:
            self.writes.remove(write)
        self.truth.commit(lambda: self._commit_ledger(write, is_lost=is_lost))
        return (
            f"{write.name} arrives in etcd for {write.key} on version {write.version}"
            f"{', and will arrive again' if is_repeated else ''}{'; its answer is lost' if is_lost else ''}"
        )

    def _commit_ledger(self, write: Write, *, is_lost: bool) -> None:
        truth = self.truth
        if write.is_limits and not self.rules.compares_limits:
            self._rebase_limits(write)
        is_stored = truth.ledgers[write.key].version == write.version or not self.rules.compares
        if is_stored:
            truth.revision += 1
            truth.ledgers[write.key] = StoredLedger(write.ledger, truth.revision, write.used_by_pod)
            self._check_ledger(write)
        if not is_lost:
            write.answer(is_stored)

    def _rebase_limits(self, write: Write) -> None:
        """Turn a write of limits into a patch of the ledger that is stored now."""
        stored = self.truth.ledgers[write.key]
        if stored.ledger is not None and stored.ledger.resources == write.ledger.resources:
            hard, surge = write.ledger.hard, write.ledger.surge
            write.ledger = structs.replace(stored.ledger, hard=hard, surge=surge)
            write.version, write.used_by_pod = stored.version, stored.used_by_pod

    def _lose(self, a: int, _b: int, _c: int) -> str:
        write = pick(self.writes, a)
        if write is None:
            return ""
        self.writes.remove(write)
        return f"{write.name} for {write.key} is lost"

    def _stall(self, _a: int, _b: int, _c: int) -> str:
        if self.truth.is_stalled:
            return ""
        self.truth.is_stalled = True
        return "etcd stalls"

    def _commit(self, a: int, _b: int, _c: int) -> str:
        """End a stall of etcd, or commit its first waiting transaction."""
        if self.truth.is_stalled:
            if a % 4:
                return ""
            self.truth.is_stalled = False
            return "etcd continues"
        if not self.truth.waiting:
            return ""
        self.truth.waiting.pop(0)()
        return f"etcd commits the first waiting transaction (revision {self.truth.revision})"

    def _delete_ledger(self, a: int, _b: int, _c: int) -> str:
        """Delete a ledger: the process with a store in memory restarted, or a user deleted it."""
        key = self.truth.pick_key(a)
        if self.truth.ledgers[key].ledger is None or self.truth.waiting:
            return ""
        self.truth.revision += 1
        self.truth.ledgers[key] = StoredLedger(None, self.truth.revision, {})
        return f"the ledger {key} is deleted"
