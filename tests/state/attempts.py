"""Attempts for tests: look at a ledger, put one in its place, add to one."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from webhook.accounting.amounts import Amounts
from webhook.state.ledger import Kind, Ledger, Row
from webhook.state.ports import Step

GPU = "nvidia.com/gpu"


@dataclass(frozen=True)
class Look:
    """The ledger as it is, or `sure`: as it is known."""

    sure: bool = False

    def __call__(self, found: Ledger | None) -> Step[Ledger | None]:
        """Nothing is written."""
        return Step(found, sure=self.sure)

    def is_in(self, _: Ledger) -> bool:
        """Nothing is written."""
        return False


@dataclass(frozen=True)
class Put:
    """Another ledger in the place of what is there, told when to write again."""

    change: Callable[[Ledger | None], Ledger]

    def __call__(self, found: Ledger | None) -> Step[None]:
        """Write it."""
        return Step(None, self.change(found))

    def is_in(self, _: Ledger) -> bool:
        """It leaves no mark."""
        return False


@dataclass(frozen=True)
class Remove:
    """Take the ledger away where it promises nothing. Gives whether it has."""

    def __call__(self, found: Ledger | None) -> Step[bool]:
        """It is worth nothing, or is left alone."""
        is_empty = found is not None and not found.rows
        return Step(is_empty, removes=is_empty)

    def is_in(self, _: Ledger) -> bool:
        """It leaves no mark."""
        return False


@dataclass(frozen=True)
class Take:
    """So many GPUs for a pod, if the ledger's bound has room for them. Gives whether it has."""

    uid: str
    gpus: int = 1
    by: str = "n1"

    def __call__(self, found: Ledger | None) -> Step[bool]:
        """Write a row."""
        assert found is not None, "a ledger that is not there"
        if found.charged().get(GPU, 0) + self.gpus > found.hard[GPU]:
            return Step(outcome=False, refused=Amounts({GPU: self.gpus}))
        row = Row("team-a", self.uid, Amounts(), Amounts({GPU: self.gpus}), self.by, sole=True, kind=Kind.CREATE)
        return Step(outcome=True, ledger=found.with_row(self.uid, row))

    def is_in(self, ledger: Ledger) -> bool:
        """Whether the row is there."""
        return self.uid in ledger.rows and ledger.rows[self.uid].by == self.by


def room(gpus: int) -> Ledger:
    """A ledger in which nothing is promised, with room for so many."""
    return Ledger(Amounts({GPU: gpus}), counts=frozenset({GPU}))


def bounded(gpus: int) -> Put:
    """Let the bound be another, whatever is promised."""
    return Put(lambda found: replace(found or room(0), hard=Amounts({GPU: gpus})))
