"""How long to wait before trying again: longer each time, and never all at once."""

from collections.abc import Callable

_FIRST_SECONDS = 0.5
_LONGEST_SECONDS = 30.0  # as client-go's reflector
_LONGEST_ASKED_SECONDS = 60.0  # a server that asks for more is asked again anyway


class Backoff:
    """Waiting times in seconds. `chance` gives numbers in [0, 1)."""

    def __init__(self, chance: Callable[[], float]) -> None:
        self._chance = chance
        self._next = _FIRST_SECONDS

    def again(self, asked: float | None = None) -> float:
        """The time to wait after one more failure: at least what the server asked for, and up to half more."""
        base = self._next
        self._next = min(2 * self._next, _LONGEST_SECONDS)
        if asked is not None:
            base = max(base, min(max(asked, 0.0), _LONGEST_ASKED_SECONDS))
        return base * (1 + self._chance() / 2)

    def succeeded(self) -> None:
        """Begin with the shortest time again."""
        self._next = _FIRST_SECONDS
