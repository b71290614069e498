"""When certificates are looked at: now and then, and soon after something has changed."""

import random
import time
from collections.abc import Callable
from threading import Event
from typing import Final

DEBOUNCE_SECONDS: Final = 0.05
"""From being told of a change to looking: both configurations change together."""

PROMPT_CHANGES: Final = 8
"""So many changes in a row are looked at so soon; what becomes of a registration is some five."""

_MAX_DOUBLINGS: Final = 16


class ChangeDebouncer:
    """Of one thread. `change` may be called by any; `rest` waits so many seconds, or less when it is time to stop."""

    def __init__(self, sleep: Callable[[float], object]) -> None:
        self._sleep = sleep
        self._changed = Event()
        self._change_count = 0

    def notify(self) -> None:
        """Something has changed, or it is time to stop."""
        self._changed.set()

    def wait(self, interval: float) -> None:
        """Wait for so many seconds, or until soon after something has changed.

        Not the same for all replicas, so that mostly one does what is to be done before the next looks. The longer
        changes go on, the later: somebody may write again and again what is put back here.
        """
        interval, started_at = interval * _draw_jitter(), time.monotonic()
        if not self._changed.wait(interval):
            self._change_count = 0
            return
        remaining = interval - (time.monotonic() - started_at)
        delay = (
            DEBOUNCE_SECONDS * 2 ** min(max(self._change_count - PROMPT_CHANGES, 0), _MAX_DOUBLINGS) * _draw_jitter()
        )
        self._sleep(max(0.0, min(remaining, delay)))
        self._change_count += 1
        self._changed.clear()


def _draw_jitter() -> float:
    return random.uniform(0.8, 1.2)  # noqa: S311  nothing secret about it
