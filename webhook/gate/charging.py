"""Charging: one pod under all its caps, all or nothing.

Check all first, or a full cap would starve its neighbour with promises; write in the order of their keys, so that
nobody waits for nobody; take back what was written when a later one has no room any more.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from webhook.accounting.amounts import Amounts
from webhook.admission.capping import Counted
from webhook.errors import TallygateError
from webhook.state.ledger import Deferred, Granted, Kind, Ledger, Refused, Reservation, reserve, withdraw
from webhook.state.ports import LedgerKey, LedgerStore, StoreUnavailableError


class BusyError(TallygateError):
    """Nothing is promised, and trying again is right: the deadline passed, or a ledger must first be counted."""


@dataclass(frozen=True, slots=True)
class Who:
    """The pod that asks, and the nonce of this attempt."""

    uid: str
    namespace: str
    name: str
    by: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class Asked:
    """What a pod holds (`old`) and asks for (`new`) under one cap; `exceeds` when this user may go over it."""

    counted: Counted
    old: Amounts
    new: Amounts
    exceeds: bool

    def key(self, namespace: str) -> LedgerKey:
        """The ledger that counts it."""
        return LedgerKey(self.counted.key, "" if self.counted.cap.shared else namespace)


@dataclass(frozen=True, slots=True)
class Booked:
    """How one cap answers: the ledger as it is (refused) or will be (granted), and by how much the ask goes over."""

    asked: Asked
    before: Ledger
    ledger: Ledger
    excess: Amounts


@dataclass(frozen=True, slots=True)
class Outcome:
    """Granted under every cap, or `refused` by some: then nothing is promised anywhere."""

    granted: tuple[Booked, ...] = ()
    refused: tuple[Booked, ...] = ()


class Charging:
    """One attempt to charge one pod."""

    def __init__(self, store: LedgerStore, who: Who, in_time: Callable[[], bool]) -> None:
        self._store = store
        self._who = who
        self._in_time = in_time
        self._tried: dict[LedgerKey, None] = {}

    def check(self, asked: Sequence[Asked]) -> Outcome:
        """What the caps say now; nothing is written.

        Raises:
            BusyError: a ledger cannot promise now.
            StoreUnavailableError: a ledger could not be read.
        """
        answers = [(each, self._read(each)[0]) for each in asked]
        return _outcome([_booked(each, ledger, self._reserve(each, ledger)) for each, ledger in answers])

    def charge(self, asked: Sequence[Asked]) -> Outcome:
        """Check all, then promise under each in turn.

        Raises:
            BusyError: others kept writing until the deadline, or a ledger cannot promise now.
            StoreUnavailableError: a ledger could not be read or written.
        """
        if len(asked) > 1 and (outcome := self.check(asked)).refused:
            return outcome
        try:
            outcome = self._write_all(asked)
        except (BusyError, StoreUnavailableError):
            self._withdraw()
            raise
        if outcome.refused:
            self._withdraw()
        return outcome

    def _write_all(self, asked: Sequence[Asked]) -> Outcome:
        booked: list[Booked] = []
        for each in asked:
            booked.append(self._write(each))
            if booked[-1].excess:
                break
        return _outcome(booked)

    def _write(self, asked: Asked) -> Booked:
        key = asked.key(self._who.namespace)
        while self._in_time():
            ledger, version = self._read(asked)
            answer = self._reserve(asked, ledger)
            if isinstance(answer, Refused) or answer.free:
                return _booked(asked, ledger, answer)
            self._tried[key] = None  # before it is: where the answer is lost, it may have been written
            if self._store.write(key, answer.ledger, version):
                return _booked(asked, ledger, answer)
        raise BusyError(f"the ledger of cap {asked.counted.cap.name} is busy")

    def _withdraw(self) -> None:
        for key in self._tried:
            # A ledger out of reach keeps its promise; that is no reason to keep those of the others.
            with suppress(StoreUnavailableError):
                self._take_back(key)
        self._tried.clear()

    def _take_back(self, key: LedgerKey) -> None:
        while (found := self._store.read(key)) is not None:
            ledger = withdraw(found.ledger, self._who.uid, self._who.by)
            if ledger is found.ledger or self._store.write(key, ledger, found.version):
                return

    def _read(self, asked: Asked) -> tuple[Ledger, str | None]:
        """The ledger under this policy, and its version.

        This process is alone with its ledgers and watches no pods: what its policy says holds, a name that is new to
        the ledger counts from here on, and promises are not bounded, since nothing settles them.
        """
        hard, names = asked.counted.hard, asked.counted.names
        found = self._store.read(asked.key(self._who.namespace))
        if found is None:
            return Ledger(hard, counts=names), None
        return replace(found.ledger, hard=hard, counts=found.ledger.counts | names), found.version

    def _reserve(self, asked: Asked, ledger: Ledger) -> Granted | Refused:
        who = self._who
        wanted = Reservation(
            who.uid,
            who.namespace,
            who.name,
            old=asked.old,
            new=asked.new,
            by=who.by,
            kind=who.kind,
            hard=asked.counted.hard,
            exceeds=asked.exceeds,
            most_rows=None,
        )
        answer = reserve(ledger, wanted)
        if isinstance(answer, Deferred):
            raise BusyError(f"cap {asked.counted.cap.name} promises nothing now: {answer.first}")
        return answer


def _booked(asked: Asked, before: Ledger, answer: Granted | Refused) -> Booked:
    excess = answer.excess if isinstance(answer, Refused) else Amounts()
    return Booked(asked, before, answer.ledger, excess)


def _outcome(booked: list[Booked]) -> Outcome:
    refused = tuple(each for each in booked if each.excess)
    return Outcome(refused=refused) if refused else Outcome(granted=tuple(booked))
