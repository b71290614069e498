"""How long to wait before trying again: longer each time, and never all at once."""

from collections.abc import Callable

_INITIAL_DELAY_SECONDS = 0.5
_MAX_DELAY_SECONDS = 30.0  # as client-go's reflector
_MAX_RETRY_AFTER_SECONDS = 60.0  # a server that asks for more is asked again anyway


class Backoff:
    """Waiting times in seconds. `chance` gives numbers in [0, 1)."""

    def __init__(self, random_float: Callable[[], float]) -> None:
        self._random_float = random_float
        self._next_delay = _INITIAL_DELAY_SECONDS

    def compute_delay(self, retry_after: float | None = None) -> float:
        """The time to wait after one more failure: at least what the server asked for, and up to half more."""
        delay = self._next_delay
        self._next_delay = min(2 * self._next_delay, _MAX_DELAY_SECONDS)
        if retry_after is not None:
            delay = max(delay, min(max(retry_after, 0.0), _MAX_RETRY_AFTER_SECONDS))
        return delay * (1 + self._random_float() / 2)

    def reset(self) -> None:
        """Begin with the shortest time again."""
        self._next_delay = _INITIAL_DELAY_SECONDS
