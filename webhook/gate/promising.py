"""The attempts of charging, as the ledgers carry them out: promise a pod room under one cap, and take that back."""

from dataclasses import replace
from enum import Enum, auto

import msgspec

from webhook.accounting.amounts import Amounts
from webhook.admission.capping import Counted
from webhook.gate.sight import Membership, Sight
from webhook.state.ledger import (
    MOST_ROWS,
    Deferred,
    First,
    Granted,
    Kind,
    Ledger,
    Refused,
    Reservation,
    recount,
    reserve,
    withdraw,
)
from webhook.state.ports import LedgerKey, Step

_NOTHING = Amounts()
_MANY_ROWS = 8


class Who(msgspec.Struct, frozen=True):
    """The pod that asks, and the nonce of this attempt."""

    uid: str
    namespace: str
    name: str
    by: str
    kind: Kind


class Asked(msgspec.Struct, frozen=True):
    """What a pod holds (`old`) and asks for (`new`) under one cap; `exceeds` when this user may go over it."""

    counted: Counted
    old: Amounts
    new: Amounts
    exceeds: bool

    def key(self, namespace: str) -> LedgerKey:
        """The ledger that counts it."""
        return LedgerKey(self.counted.key, "" if self.counted.cap.shared else namespace)


class Booked(msgspec.Struct, frozen=True):
    """How one cap answers: the ledger as it is (refused) or will be (granted), and by how much the ask goes over."""

    asked: Asked
    before: Ledger
    ledger: Ledger
    excess: Amounts


class Mode(Enum):
    """Promise; or see whether there is room, to promise next; or only look, and leave no trace."""

    PROMISE = auto()
    CHECK = auto()
    LOOK = auto()


class Promise(msgspec.Struct, frozen=True):
    """Asks one ledger. `alone` is that of the `Ledgers` that carry it out; `sight` None where no pods are watched."""

    who: Who
    asked: Asked
    mode: Mode
    alone: bool
    sight: Sight | None = None

    def __call__(self, found: Ledger | None) -> Step[Booked | Deferred]:
        """The cap's answer, and the ledger with the promise."""
        ledger = self._settled(self._alone(found) if self.alone else self._shared(found))
        members = self.sight.members(self.asked.counted, self._key) if self.sight and not self.alone else None
        wanted = self._wanted(members)
        answer = reserve(ledger, wanted)
        if isinstance(answer, Granted) and not answer.free and members and ledger.ns_as_of < members.changed:
            answer = Deferred(ledger, First.COUNT_MEMBERS)
        if not isinstance(answer, Granted) and (counted := self._recounted(ledger)) is not None:
            # A recount in the same write: what was deleted makes room, and what is new to the ledger is counted.
            ledger, answer = counted, reserve(counted, wanted)
        match answer:
            case Deferred():
                return Step(answer, None if found is not None or self.mode is Mode.LOOK else ledger)
            case Refused(excess=excess):
                more = self.asked.new.find_shortfall(self.asked.old)
                refused = Amounts({name: more[name] for name in excess})
                return Step(Booked(self.asked, ledger, answer.ledger, excess), refused=refused)
            case Granted(free=free):
                booked = Booked(self.asked, ledger, answer.ledger, _NOTHING)
                if self.mode is Mode.PROMISE and not free:
                    return Step(booked, answer.ledger)
                return Step(booked, sure=self.mode is Mode.CHECK)

    def is_in(self, ledger: Ledger) -> bool:
        """Whether the pod's row was last written by this attempt."""
        row = ledger.rows.get(self.who.uid)
        return row is not None and row.by == self.who.by

    def _alone(self, found: Ledger | None) -> Ledger:
        """The ledger under this policy, where nobody else keeps it and no pods are watched.

        What the policy says holds, and a name that is new to the ledger counts from here on.
        """
        hard, names = self.asked.counted.hard, self.asked.counted.names
        if found is None:
            return Ledger(hard, counts=names)
        if found.hard is hard and found.counts >= names:
            return found
        return replace(found, hard=hard, counts=found.counts | names)

    def _shared(self, found: Ledger | None) -> Ledger:
        """The ledger as replicas share it; one that is not there may have been, and what it promised is not known.

        Only where the namespace itself is new, and nobody has met it, there was none.
        """
        if found is not None:
            return found
        new = self.sight is not None and self.sight.is_first(self._key)
        return Ledger(self.asked.counted.hard, converging="" if new else self.who.by)

    def _settled(self, ledger: Ledger) -> Ledger:
        """Promises that the watch shows kept go in the same write (rule 4), so that no keeper need write for them.

        Not at every write: each row that is left costs some microseconds, and so does a recount.
        """
        if self.mode is not Mode.PROMISE or len(ledger.rows) < _MANY_ROWS:
            return ledger
        if self.sight is None or not self.sight.shows_more(ledger):
            return ledger
        return self._recounted(ledger) or ledger

    def _recounted(self, ledger: Ledger) -> Ledger | None:
        """The ledger counted anew, where a newer view is there."""
        if self.alone or self.sight is None or ledger.converging:
            return None
        view = self.sight.view(self.asked.counted, self._key, ledger)
        counted = None if view is None else recount(ledger, view)
        return counted if isinstance(counted, Ledger) else None

    @property
    def _key(self) -> LedgerKey:
        return self.asked.key(self.who.namespace)

    def _wanted(self, members: Membership | None) -> Reservation:
        who, asked = self.who, self.asked
        return Reservation(
            who.uid,
            who.namespace,
            who.name,
            old=asked.old,
            new=asked.new,
            by=who.by,
            kind=who.kind,
            hard=asked.counted.hard,
            exceeds=asked.exceeds,
            shared=asked.counted.cap.shared and not self.alone,
            most_rows=None if self.alone else MOST_ROWS,  # alone nothing settles promises, so they are not bounded
            ns_as_of=members.revision if members else 0,
            members=members.hash if members else "",
            since=self.sight.counted_since(asked.counted.key) if self.sight and not self.alone else 0,
        )


class Withdrawal(msgspec.Struct, frozen=True):
    """Takes back what an attempt has promised, if it is that attempt's alone (rule 3)."""

    who: Who

    def __call__(self, found: Ledger | None) -> Step[None]:
        """The ledger without the promise."""
        if found is None:
            return Step(None)
        ledger = withdraw(found, self.who.uid, self.who.by)
        return Step(None, None if ledger is found else ledger)

    def is_in(self, _: Ledger) -> bool:
        """It leaves nothing to be known by: where it is done already, it finds nothing to do."""
        return False


class Look(msgspec.Struct, frozen=True):
    """The ledger as it is known, for who decides nothing by it."""

    def __call__(self, found: Ledger | None) -> Step[Ledger | None]:
        """Nothing is written."""
        return Step(found, sure=True)

    def is_in(self, _: Ledger) -> bool:
        """Nothing is written."""
        return False
