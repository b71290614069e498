"""When certificates are looked at: now and then, and soon after something has changed."""

import random
import time
from collections.abc import Callable
from threading import Event
from typing import Final

TOGETHER_SECONDS: Final = 0.05
"""From being told of a change to looking: both configurations change together."""

PROMPT: Final = 8
"""So many changes in a row are looked at so soon; what becomes of a registration is some five."""

_MOST_DOUBLED: Final = 16


class Turns:
    """Of one thread. `change` may be called by any; `rest` waits so many seconds, or less when it is time to stop."""

    def __init__(self, rest: Callable[[float], object]) -> None:
        self._rest = rest
        self._changed = Event()
        self._told = 0

    def change(self) -> None:
        """Something has changed, or it is time to stop."""
        self._changed.set()

    def wait(self, pause: float) -> None:
        """Wait for so many seconds, or until soon after something has changed.

        Not the same for all replicas, so that mostly one does what is to be done before the next looks. The longer
        changes go on, the later: somebody may write again and again what is put back here.
        """
        pause, begun = pause * _about_one(), time.monotonic()
        if not self._changed.wait(pause):
            self._told = 0
            return
        left = pause - (time.monotonic() - begun)
        soon = TOGETHER_SECONDS * 2 ** min(max(self._told - PROMPT, 0), _MOST_DOUBLED) * _about_one()
        self._rest(max(0.0, min(left, soon)))
        self._told += 1
        self._changed.clear()


def _about_one() -> float:
    return random.uniform(0.8, 1.2)  # noqa: S311  nothing secret about it
