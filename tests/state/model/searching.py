"""Everything that can happen in a world, the shortest first."""

from collections import deque
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Protocol, TypeVar

S = TypeVar("S", bound=Hashable)


class World(Protocol[S]):
    """A beginning, what can happen next, and what must hold."""

    def begin(self) -> S:
        """The state in which it begins."""
        ...

    def steps(self, state: S) -> Iterable[tuple[str, S]]:
        """What can happen in a state: what it is called, and the state after it."""
        ...

    def broken(self, state: S) -> str:
        """What does not hold in a state; empty where all does."""
        ...


@dataclass(frozen=True, slots=True)
class Searched:
    """What was found: `broken` does not hold after `steps`, or nothing in so many states; `whole` if these are all."""

    states: int
    whole: bool
    broken: str = ""
    steps: tuple[str, ...] = ()


def search(world: World[S], most: int) -> Searched:
    """Look at every state that can be reached, at most so many: breadth first, so that fewest steps are told."""
    first = world.begin()
    came: dict[S, tuple[S, str] | None] = {first: None}
    queue = deque([first])
    while queue and len(came) <= most:
        state = queue.popleft()
        if broken := world.broken(state):
            return Searched(len(came), whole=False, broken=broken, steps=_way(came, state))
        for told, after in world.steps(state):
            if after not in came:
                came[after] = state, told
                queue.append(after)
    return Searched(len(came), whole=not queue)


def _way(came: dict[S, tuple[S, str] | None], state: S) -> tuple[str, ...]:
    told: list[str] = []
    while (before := came[state]) is not None:
        state = before[0]
        told.append(before[1])
    return tuple(reversed(told))
