"""Attempts for tests: look at a ledger, put one in its place, add to one."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from webhook.accounting.amounts import Amounts
from webhook.state.ledger.ledger import Ledger, Operation, Reservation
from webhook.state.ports import TransitionResult

GPU = "nvidia.com/gpu"


@dataclass(frozen=True)
class Look:
    """The ledger as it is, or `sure`: as it is known."""

    sure: bool = False

    def __call__(self, found: Ledger | None) -> TransitionResult[Ledger | None]:
        """Nothing is written."""
        return TransitionResult(found, accepts_cached=self.sure)

    def is_stored_in(self, _: Ledger) -> bool:
        """Nothing is written."""
        return False


@dataclass(frozen=True)
class Put:
    """Another ledger in the place of what is there, told when to write again."""

    change: Callable[[Ledger | None], Ledger]

    def __call__(self, found: Ledger | None) -> TransitionResult[None]:
        """Write it."""
        return TransitionResult(None, self.change(found))

    def is_stored_in(self, _: Ledger) -> bool:
        """It leaves no mark."""
        return False


@dataclass(frozen=True)
class Remove:
    """Take the ledger away where it promises nothing. Gives whether it has."""

    def __call__(self, found: Ledger | None) -> TransitionResult[bool]:
        """It is worth nothing, or is left alone."""
        is_empty = found is not None and not found.reservations
        return TransitionResult(is_empty, is_removal=is_empty)

    def is_stored_in(self, _: Ledger) -> bool:
        """It leaves no mark."""
        return False


@dataclass(frozen=True)
class Take:
    """So many GPUs for a pod, if the ledger's bound has room for them. Gives whether it has."""

    uid: str
    gpus: int = 1
    by: str = "n1"

    def __call__(self, found: Ledger | None) -> TransitionResult[bool]:
        """Write a row."""
        assert found is not None, "a ledger that is not there"
        if found.compute_charged().get(GPU, 0) + self.gpus > found.hard[GPU]:
            return TransitionResult(outcome=False, rejected_amounts=Amounts({GPU: self.gpus}))
        row = Reservation(
            "team-a",
            self.uid,
            Amounts(),
            Amounts({GPU: self.gpus}),
            self.by,
            single_attempt=True,
            operation=Operation.CREATE,
        )
        return TransitionResult(outcome=True, ledger=found.with_reservation(self.uid, row))

    def is_stored_in(self, ledger: Ledger) -> bool:
        """Whether the row is there."""
        return self.uid in ledger.reservations and ledger.reservations[self.uid].attempt == self.by


def room(gpus: int) -> Ledger:
    """A ledger in which nothing is promised, with room for so many."""
    return Ledger(Amounts({GPU: gpus}), resources=frozenset({GPU}))


def bounded(gpus: int) -> Put:
    """Let the bound be another, whatever is promised."""
    return Put(lambda found: replace(found or room(0), hard=Amounts({GPU: gpus})))
