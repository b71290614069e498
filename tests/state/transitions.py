"""Transitions for tests: read a ledger, replace it, remove it, and reserve in it."""

from collections.abc import Callable
from dataclasses import dataclass

from msgspec.structs import replace

from tallygate.accounting.amounts import Amounts
from tallygate.state.ledger.ledger import Ledger, Operation, Reservation
from tallygate.state.ports import TransitionResult

GPU = "nvidia.com/gpu"


@dataclass(frozen=True)
class Read:
    """A read of the stored ledger, or of the cached one if `accepts_cached`."""

    accepts_cached: bool = False

    def __call__(self, found: Ledger | None) -> TransitionResult[Ledger | None]:
        """Return the ledger and write nothing."""
        return TransitionResult(found, accepts_cached=self.accepts_cached)

    def is_stored_in(self, _: Ledger) -> bool:
        """Return False: nothing is written."""
        return False


@dataclass(frozen=True)
class Put:
    """A write of another ledger in the place of the stored one."""

    change: Callable[[Ledger | None], Ledger]

    def __call__(self, found: Ledger | None) -> TransitionResult[None]:
        """Write the changed ledger."""
        return TransitionResult(None, self.change(found))

    def is_stored_in(self, _: Ledger) -> bool:
        """Return False: the write leaves no mark."""
        return False


@dataclass(frozen=True)
class Remove:
    """A removal of the ledger if it has no reservations; the outcome is whether it was removed."""

    def __call__(self, found: Ledger | None) -> TransitionResult[bool]:
        """Remove an empty ledger, or leave it."""
        is_empty = found is not None and not found.reservations
        return TransitionResult(is_empty, is_removal=is_empty)

    def is_stored_in(self, _: Ledger) -> bool:
        """Return False: the write leaves no mark."""
        return False


@dataclass(frozen=True)
class Take:
    """A reservation of GPUs for a pod up to the hard limit; the outcome is whether it was reserved."""

    uid: str
    gpus: int = 1
    by: str = "n1"

    def __call__(self, found: Ledger | None) -> TransitionResult[bool]:
        """Write a reservation."""
        assert found is not None, "the ledger is missing"
        if found.compute_charged().get(GPU, 0) + self.gpus > found.hard[GPU]:
            return TransitionResult(outcome=False, rejected_amounts=Amounts({GPU: self.gpus}))
        reservation = Reservation(
            "team-a",
            self.uid,
            Amounts(),
            Amounts({GPU: self.gpus}),
            self.by,
            single_attempt=True,
            operation=Operation.CREATE,
        )
        return TransitionResult(outcome=True, ledger=found.with_reservation(self.uid, reservation))

    def is_stored_in(self, ledger: Ledger) -> bool:
        """Return whether the reservation of this attempt is stored."""
        return self.uid in ledger.reservations and ledger.reservations[self.uid].attempt == self.by


def free_ledger(gpus: int) -> Ledger:
    """Return a ledger without reservations, with the given hard limit."""
    return Ledger(Amounts({GPU: gpus}), resources=frozenset({GPU}))


def set_limit(gpus: int) -> Put:
    """Return a write of another hard limit, whatever is reserved."""
    return Put(lambda found: replace(found or free_ledger(0), hard=Amounts({GPU: gpus})))
