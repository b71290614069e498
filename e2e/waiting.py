"""Waiting until something is so, with an end."""

import time
from collections.abc import Callable

from e2e.errors import ClusterError

_PAUSE = 0.05  # seconds between two looks


def until(what: str, is_so: Callable[[], bool], within: float, logs: Callable[[], str] = lambda: "") -> None:
    """Wait until it is so, `within` seconds.

    Raises:
        ClusterError: it is not so by then; the text says `what` was waited for, and has the `logs`.
    """
    deadline = time.monotonic() + within
    while not is_so():
        if time.monotonic() > deadline:
            raise ClusterError(f"{what}: not so after {within:.0f} s\n{logs()}".strip())
        time.sleep(_PAUSE)
