"""Waiting until a condition is met, with a deadline."""

import time
from collections.abc import Callable

from e2e.errors import ClusterError

_LEAST, _MOST = 0.05, 0.5  # seconds between two looks
_PART = 0.1  # of the time waited so far: a long wait ends a little late, and leaves the processors to others


def until(what: str, is_so: Callable[[], bool], within: float, logs: Callable[[], str] = lambda: "") -> None:
    """Wait until `is_so`, for at most `within` seconds.

    Raises:
        ClusterError: if it is not met by then; the text names `what` was waited for, and has the `logs`.
    """
    begun = time.monotonic()
    while not is_so():
        waited = time.monotonic() - begun
        if waited > within:
            raise ClusterError(f"{what}: not so after {within:.0f} s\n{logs()}".strip())
        time.sleep(min(max(_LEAST, waited * _PART), _MOST))
