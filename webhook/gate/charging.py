"""Charging: one pod under all its caps, all or nothing.

Check all first, or a full cap would starve its neighbour with promises; write in the order of their keys, so that
nobody waits for nobody; take back what was written when a later one has no room any more.
"""

from collections.abc import Sequence
from contextlib import suppress

import msgspec

from webhook.gate.promising import Asked, Booked, Mode, Promise, Who, Withdrawal
from webhook.gate.sight import Sight
from webhook.state.ledger import Deferred, First, Ledger
from webhook.state.ports import BusyError, LedgerKey, Ledgers, Step, StoreUnavailableError

_GRACE_SECONDS = 1.0  # to take a promise back in, after the deadline: else it stands in others' way until it expires


class Outcome(msgspec.Struct, frozen=True):
    """Granted under every cap, or `refused` by some: then nothing is promised anywhere."""

    granted: tuple[Booked, ...] = ()
    refused: tuple[Booked, ...] = ()


class Noted(msgspec.Struct):
    """An attempt, and whether anything was to be stored for it: only then something may have to be taken back."""

    attempt: Promise
    may_be_stored: bool = False

    @property
    def mode(self) -> Mode:
        """What the attempt is for."""
        return self.attempt.mode

    def __call__(self, found: Ledger | None) -> Step[Booked | Deferred]:
        """What the attempt makes of the ledger."""
        step = self.attempt(found)
        self.may_be_stored |= step.ledger is not None
        return step

    def is_in(self, ledger: Ledger) -> bool:
        """Whether what it wrote is stored."""
        return self.attempt.is_in(ledger)


class Charging:
    """One attempt to charge one pod, before `deadline` (seconds of the monotonic clock).

    `sight` shows the pods that are there, where they are watched.
    """

    def __init__(self, ledgers: Ledgers, who: Who, deadline: float, sight: Sight | None = None) -> None:
        self._ledgers = ledgers
        self._sight = sight
        self._who = who
        self._deadline = deadline
        self._tried: list[tuple[LedgerKey, Noted]] = []

    def check(self, asked: Sequence[Asked]) -> Outcome:
        """What the caps say now; nothing is written.

        Raises:
            BusyError: a ledger cannot promise now.
            StoreUnavailableError: a ledger could not be read.
        """
        return _outcome(asked, [self._transact(each, Mode.LOOK) for each in asked])

    def charge(self, asked: Sequence[Asked]) -> Outcome:
        """Check all, then promise under each in turn.

        Raises:
            BusyError: others kept writing until the deadline, or a ledger cannot promise now.
            StoreUnavailableError: a ledger could not be read or written.
        """
        if len(asked) > 1:
            checked = _outcome(asked, [self._transact(each, Mode.CHECK) for each in asked])
            if checked.refused:
                return checked
        try:
            outcome = self._promise_all(asked)
        except (BusyError, StoreUnavailableError):
            self._withdraw()
            raise
        if outcome.refused:
            self._withdraw()
        return outcome

    def _promise_all(self, asked: Sequence[Asked]) -> Outcome:
        answers: list[Booked | Deferred] = []
        for each in asked:
            answers.append(self._transact(each, Mode.PROMISE))
            if not isinstance(answers[-1], Booked) or answers[-1].excess:
                break
        return _outcome(asked, answers)

    def _transact(self, asked: Asked, mode: Mode) -> Booked | Deferred:
        attempt = Noted(Promise(self._who, asked, mode, alone=self._ledgers.alone, sight=self._sight))
        key = asked.key(self._who.namespace)
        if mode is Mode.PROMISE:
            self._tried.append((key, attempt))  # before it is: a lost answer may have been written
        answer = self._ledgers.transact(key, attempt, self._deadline)
        if self._sight is not None and isinstance(answer, Deferred) and answer.first is First.CATCH_UP:
            self._sight.hurry()
        if self._sight is not None and isinstance(answer, Booked) and answer.excess:
            self._sight.doubt()
        return answer

    def _withdraw(self) -> None:
        for key in [key for key, attempt in self._tried if attempt.may_be_stored]:
            # A ledger out of reach keeps its promise until it expires; that is no reason to keep those of the others.
            with suppress(StoreUnavailableError, BusyError):
                self._ledgers.transact(key, Withdrawal(self._who), self._deadline + _GRACE_SECONDS)


def _outcome(asked: Sequence[Asked], answers: Sequence[Booked | Deferred]) -> Outcome:
    """All together: a refusal is one whatever else must happen first.

    Raises:
        BusyError: none refuses, and one must be asked again later.
    """
    booked = tuple([each for each in answers if isinstance(each, Booked)])
    if refused := tuple([each for each in booked if each.excess]):
        return Outcome(refused=refused)
    if len(booked) == len(answers):
        return Outcome(granted=booked)
    for each, answer in zip(asked, answers, strict=False):  # where one must be asked again, none after it was asked
        if isinstance(answer, Deferred):
            raise BusyError(f"cap {each.counted.cap.name}: {answer.first}")
    return Outcome(granted=booked)
