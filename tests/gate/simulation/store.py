"""A `LedgerStore` and a `PodReader` over the truth, whose calls take time, get lost, come late, or hear no answer."""

from collections.abc import Callable

from tests.gate.simulation.tasks import Tasks
from tests.gate.simulation.truth import Truth
from webhook.state.ledger.ledger import Ledger
from webhook.state.ports import LedgerKey, StoreUnavailableError, UnknownOutcomeError, VersionedLedger

_LOST, _LATE, _DEAF = 0, 1, 2
"""What becomes of a call, by the order of the schedule: of so many (`_OF`), one each."""
_OF = 24


class Store:
    """One replica's way to the ledgers; `written` is told of every ledger that is stored."""

    def __init__(self, truth: Truth, tasks: Tasks, written: Callable[[LedgerKey], None]) -> None:
        self._truth = truth
        self._tasks = tasks
        self._written = written

    def read(self, key: LedgerKey, patience: float) -> VersionedLedger | None:  # noqa: ARG002  # an order says when it ends
        """The ledger as it is at some moment of this call; reads go on where writes stall.

        Raises:
            StoreUnavailableError: no answer.
        """
        fate = self._tasks.pause(f"reads {key.namespace or 'the shared ledger'}") % _OF
        found = self._truth.books.get(key)
        if self._tasks.pause("has read") % _OF == _DEAF or fate in {_LOST, _LATE}:
            raise StoreUnavailableError("no answer")
        return VersionedLedger(found[0], str(found[1])) if found else None

    def write(self, key: LedgerKey, ledger: Ledger, version: str | None, patience: float) -> str | None:
        """Compare and swap, sooner or later.

        Raises:
            LostAnswerError: it may have been stored, or may yet be.
        """

        def stored(revision: int) -> None:
            self._truth.books[key] = ledger, revision

        return self._changed(key, version, f"writes {key.namespace or 'the shared ledger'}", stored, patience)

    def remove(self, key: LedgerKey, found: VersionedLedger, patience: float) -> bool:
        """Compare and delete, sooner or later.

        Raises:
            LostAnswerError: it may have gone, or may yet go.
        """
        told = f"takes the ledger of {key.namespace} away"
        return self._changed(key, found.version, told, lambda _: self._truth.books.pop(key), patience) is not None

    def _changed(
        self, key: LedgerKey, version: str | None, told: str, change: Callable[[int], object], patience: float
    ) -> str | None:
        won = list[str]()

        def transaction() -> None:
            found = self._truth.books.get(key)
            if (str(found[1]) if found else None) == version:
                self._truth.revision += 1
                change(self._truth.revision)
                won.append(str(self._truth.revision))
                self._written(key)
            elif not won:
                won.append("")

        fate = self._tasks.pause(told) % _OF
        if fate == _LOST:
            raise UnknownOutcomeError("lost on its way")
        if fate == _LATE:
            self._truth.late.append(transaction)
            raise UnknownOutcomeError("late on its way")
        self._truth.commit(transaction)
        until = self._truth.clock() + patience
        while self._tasks.pause("has written") % _OF != _DEAF:
            if won:
                return won[0] or None
            if self._truth.clock() > until:
                break
        raise UnknownOutcomeError("no answer")

    def read_pod_revision(self, namespace: str, name: str, uid: str) -> int | None:
        """The revision of a pod, by a quorum read.

        Raises:
            StoreUnavailableError: no answer.
        """
        fate = self._tasks.pause("reads a pod") % _OF
        found = self._truth.pods.get(uid)
        assert found is None or (found.namespace, f"pod-{found.uid}") == (namespace, name)
        if self._tasks.pause("has read a pod") % _OF == _DEAF or fate in {_LOST, _LATE}:
            raise StoreUnavailableError("no answer")
        return found.revision if found else None
