"""Durations as Go writes them: `10s`, `1m30s`, `250ms`."""

import re

from webhook.errors import TallygateError

_DURATION_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION_PART = r"(\d{1,9}(?:\.\d{0,9})?|\.\d{1,9})(ns|us|µs|μs|ms|s|m|h)"
_DURATION_PARTS = re.compile(_DURATION_PART, re.ASCII)
_DURATION_PATTERN = re.compile(rf"(?:{_DURATION_PART})+", re.ASCII)
_MAX_DURATION_LENGTH = 64


class DurationError(TallygateError, ValueError):
    """The text is not a duration."""


def parse_duration(text: str) -> float:
    """Seconds in a duration as Go's `time.ParseDuration` reads it, but unsigned: nothing lasts less than nothing.

    Raises:
        DurationError: when it is none, or longer than 64 characters.
    """
    if text == "0":
        return 0.0
    if len(text) > _MAX_DURATION_LENGTH or not _DURATION_PATTERN.fullmatch(text):
        raise DurationError(
            f"{text[:_MAX_DURATION_LENGTH]!r} is not a duration; write a number and a unit, such as 10s or 1m30s"
        )
    return sum(float(number) * _DURATION_UNITS[unit] for number, unit in _DURATION_PARTS.findall(text))
