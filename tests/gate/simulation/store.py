"""A `LedgerStore` and a `PodReader` over the ground truth. Calls take time; they may be lost, late or unanswered."""

import json
from collections.abc import Callable

from tallygate.accounting.charge import ConsumerKind
from tallygate.state.ledger.ledger import Ledger
from tallygate.state.ports import LedgerKey, StoreUnavailableError, UnknownOutcomeError, VersionedLedger
from tests.gate.simulation.ground_truth import GroundTruth
from tests.gate.simulation.tasks import Tasks

_LOST, _LATE, _UNANSWERED = 0, 1, 2
"""The faults of a call; the number of the schedule, modulo `_FATES`, chooses one or none."""
_FATES = 24


class Store:
    """The connection of a replica to the ledgers; `check` is called with the key of every stored ledger."""

    def __init__(self, truth: GroundTruth, tasks: Tasks, check: Callable[[LedgerKey], None]) -> None:
        self._truth = truth
        self._tasks = tasks
        self._check = check

    def read(self, key: LedgerKey, patience: float) -> VersionedLedger | None:  # noqa: ARG002  # the schedule ends it
        """Return the ledger at some moment of this call; reads are answered while etcd stalls.

        Raises:
            StoreUnavailableError: if there is no answer.
        """
        fate = self._tasks.pause(f"reads {key.namespace or 'the shared ledger'}") % _FATES
        stored = self._truth.ledgers.get(key)
        if self._tasks.pause("has read") % _FATES == _UNANSWERED or fate in {_LOST, _LATE}:
            raise StoreUnavailableError("no answer")
        return VersionedLedger(stored[0], str(stored[1])) if stored else None

    def write(self, key: LedgerKey, ledger: Ledger, version: str | None, patience: float) -> str | None:
        """Compare and swap, now or later.

        Raises:
            UnknownOutcomeError: if the ledger may have been stored, or may yet be.
        """

        def store(revision: int) -> None:
            self._truth.ledgers[key] = ledger, revision

        return self._change(key, version, f"writes {key.namespace or 'the shared ledger'}", store, patience)

    def remove(self, key: LedgerKey, found: VersionedLedger, patience: float) -> bool:
        """Compare and delete, now or later.

        Raises:
            UnknownOutcomeError: if the ledger may have been deleted, or may yet be.
        """
        name = f"deletes the ledger of {key.namespace}"
        return self._change(key, found.version, name, lambda _: self._truth.delete_ledger(key), patience) is not None

    def _change(
        self, key: LedgerKey, version: str | None, name: str, change: Callable[[int], object], patience: float
    ) -> str | None:
        outcomes = list[str]()

        def transaction() -> None:
            if self._is_current(key, version):
                self._truth.revision += 1
                change(self._truth.revision)
                outcomes.append(str(self._truth.revision))
                self._check(key)
            elif not outcomes:
                outcomes.append("")

        fate = self._tasks.pause(name) % _FATES
        if fate == _LOST:
            raise UnknownOutcomeError("lost")
        if fate == _LATE:
            self._truth.late.append(transaction)
            raise UnknownOutcomeError("late")
        self._truth.commit(transaction)
        deadline = self._truth.clock() + patience
        while self._tasks.pause("has written") % _FATES != _UNANSWERED:
            if outcomes:
                return outcomes[0] or None
            if self._truth.clock() > deadline:
                break
        raise UnknownOutcomeError("no answer")

    def _is_current(self, key: LedgerKey, version: str | None) -> bool:
        stored = self._truth.ledgers.get(key)
        return (str(stored[1]) if stored else None) == version

    def was_active(self, cap: str) -> bool:
        """Return whether the record has a cap, at some moment of this call.

        Raises:
            StoreUnavailableError: if there is no answer.
        """
        fate = self._tasks.pause("reads the record") % _FATES
        was_active = cap in self._truth.recorded
        if self._tasks.pause("has read the record") % _FATES == _UNANSWERED or fate in {_LOST, _LATE}:
            raise StoreUnavailableError("no answer")
        return was_active

    def read_revision(self, kind: ConsumerKind, namespace: str, name: str, uid: str) -> int | None:
        """Return the revision of a pod or claim by a quorum read, or None if it is not stored.

        Raises:
            StoreUnavailableError: if there is no answer.
        """
        fate = self._tasks.pause(f"reads a {kind}") % _FATES
        stored = self._truth.claims.get(uid) if kind is ConsumerKind.CLAIM else self._truth.pods.get(uid)
        assert stored is None or (stored.namespace, stored.name) == (namespace, name)
        if self._tasks.pause(f"has read a {kind}") % _FATES == _UNANSWERED or fate in {_LOST, _LATE}:
            raise StoreUnavailableError("no answer")
        return stored.revision if stored else None

    def read_workload(self, resource: tuple[str, str, str], namespace: str, name: str) -> bytes | None:
        """Return the JSON of a workload or another controller by a quorum read, or None if none has that name.

        Raises:
            StoreUnavailableError: if there is no answer.
        """
        plural = resource[2]
        fate = self._tasks.pause(f"reads {plural}") % _FATES
        stored = self._truth.find_object(plural, namespace, name)
        if self._tasks.pause(f"has read {plural}") % _FATES == _UNANSWERED or fate in {_LOST, _LATE}:
            raise StoreUnavailableError("no answer")
        return json.dumps(stored).encode() if stored else None
