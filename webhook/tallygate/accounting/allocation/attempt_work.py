"""The work that the allocator may do: in one attempt, or in all attempts of a caller with little time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tallygate.accounting.devices.slice_devices import Work

_MAX_WORK: Final = 2_000_000


class AttemptWork(Work):
    """The work that remains, in the costs of expressions: about a microsecond each. For one thread at a time."""

    def __init__(self) -> None:
        super().__init__(_MAX_WORK)
        self._is_limited = False

    def begin_attempt(self) -> None:
        """Allow the work of an attempt: on all nodes together."""
        if not self._is_limited:
            self.remaining = _MAX_WORK

    @property
    def is_exhausted(self) -> bool:
        """Whether an attempt had to end without a result."""
        return self.remaining < 0

    @contextmanager
    def limit_attempts(self, work: int) -> Iterator[AttemptWork]:
        """Allow so much work for all attempts in the block together."""
        self.remaining, self._is_limited = work, True
        try:
            yield self
        finally:
            self.remaining, self._is_limited = _MAX_WORK, False
