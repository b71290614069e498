"""How often one may ask: token buckets that refuse with 429 and the time to wait."""

from collections.abc import Callable, Hashable
from http import HTTPStatus
from math import ceil
from threading import Lock
from typing import Final

from tallygate.server.asking.ask_error import AskError
from tallygate.server.token_buckets import TokenBuckets, TokenRate

ASKS_OF_USER: Final = TokenRate(burst=10, interval=0.2)
"""The rate of one user's asks: 5 a second."""

_MAX_KEYS: Final = 4096


class RateLimit:
    """A token bucket for each of the `max_keys` keys that were used last; for any thread.

    `subject` begins the sentence of a refusal. `monotonic` returns seconds.
    """

    def __init__(
        self, rate: TokenRate, subject: str, monotonic: Callable[[], float], max_keys: int = _MAX_KEYS
    ) -> None:
        self._buckets = TokenBuckets(rate, max_keys)
        self._sentence = f"{subject}: at most {1 / rate.interval:.0f} a second, and {rate.burst} at once"
        self._monotonic = monotonic
        self._lock = Lock()

    def take(self, key: Hashable) -> None:
        """Take a token of the key.

        Raises:
            AskError: with 429 if the bucket is empty.
        """
        now = self._monotonic()
        with self._lock:
            if self._buckets.take_token(key, now):
                return
            wait = self._buckets.get_wait(key, now)
        raise create_busy_error(self._sentence, wait)


def create_user_limit(monotonic: Callable[[], float]) -> RateLimit:
    """Create the limit of asks by user; its key is the name of the user."""
    return RateLimit(ASKS_OF_USER, "too many asks of this user", monotonic)


def create_busy_error(sentence: str, wait: float) -> AskError:
    """Create the error 429 for an ask that may pass after `wait` seconds, rounded up to whole ones, 1 or more."""
    seconds = max(1, ceil(wait))
    return AskError(HTTPStatus.TOO_MANY_REQUESTS, f"{sentence}. Ask again in {seconds} s", seconds)
