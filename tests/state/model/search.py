"""A breadth-first search of every state of a world."""

from collections import deque
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Protocol, TypeVar

S = TypeVar("S", bound=Hashable)


class World(Protocol[S]):
    """A first state, the next steps of each state, and the invariants."""

    def start(self) -> S:
        """Return the first state."""
        ...

    def list_steps(self, state: S) -> Iterable[tuple[str, S]]:
        """Yield the name of every next step and the state after it."""
        ...

    def find_violation(self, state: S) -> str:
        """Return the invariant that does not hold in a state, or an empty text."""
        ...


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The number of states, whether these are all, and the shortest story that violates an invariant."""

    states: int
    is_complete: bool
    violation: str = ""
    story: tuple[str, ...] = ()


def search(world: World[S], max_states: int) -> SearchResult:
    """Search the states of a world, those with the shortest stories first."""
    first = world.start()
    previous: dict[S, tuple[S, str] | None] = {first: None}
    queue = deque([first])
    while queue and len(previous) <= max_states:
        state = queue.popleft()
        if violation := world.find_violation(state):
            return SearchResult(len(previous), is_complete=False, violation=violation, story=_tell(previous, state))
        for name, after in world.list_steps(state):
            if after not in previous:
                previous[after] = state, name
                queue.append(after)
    return SearchResult(len(previous), is_complete=not queue)


def _tell(previous: dict[S, tuple[S, str] | None], state: S) -> tuple[str, ...]:
    story: list[str] = []
    while (step := previous[state]) is not None:
        state = step[0]
        story.append(step[1])
    return tuple(reversed(story))
