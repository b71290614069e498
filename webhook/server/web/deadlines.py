"""How long the API server waits for an answer, as it says itself."""

from functools import lru_cache
from urllib.parse import parse_qs

from webhook.server.settings.durations import DurationError, parse_duration

_MAX_QUERY_LENGTH = 256


@lru_cache(maxsize=256)
def parse_timeout(query: str) -> float | None:
    """The `timeout` of a query string in seconds (`timeout=5s`), or None when there is none that can be read."""
    if len(query) > _MAX_QUERY_LENGTH:
        return None
    for text in parse_qs(query).get("timeout", []):
        try:
            return parse_duration(text) or None
        except DurationError:
            return None
    return None
