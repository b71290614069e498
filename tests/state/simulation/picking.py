"""Which of several a schedule means: the same one, whatever else is left out of it."""

from collections.abc import Sequence
from typing import Protocol, TypeVar


class Tokened(Protocol):
    """What can be picked: a token stays with it, so that leaving out other things does not change who is picked."""

    @property
    def token(self) -> int:
        """Its place on the circle."""
        ...


Picked = TypeVar("Picked", bound=Tokened)


def pick(of: Sequence[Picked], number: int) -> Picked | None:
    """The next on a circle of 65,536 places: the same one as ever, as long as it is there."""
    if len(of) < 2:
        return of[0] if of else None
    return min(of, key=lambda each: (each.token - number) & 0xFFFF)
