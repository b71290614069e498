"""Durations as Go writes them: `10s`, `1m30s`, `250ms`."""

import re

from webhook.errors import TallygateError

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = r"(\d{1,9}(?:\.\d{0,9})?|\.\d{1,9})(ns|us|µs|μs|ms|s|m|h)"
_PARTS = re.compile(_PART, re.ASCII)
_WHOLE = re.compile(rf"(?:{_PART})+", re.ASCII)
_LONGEST_TEXT = 64


class DurationError(TallygateError, ValueError):
    """The text is not a duration."""


def parse_duration(text: str) -> float:
    """Seconds in a duration as Go's `time.ParseDuration` reads it, but unsigned: nothing lasts less than nothing.

    Raises:
        DurationError: when it is none, or longer than 64 characters.
    """
    if text == "0":
        return 0.0
    if len(text) > _LONGEST_TEXT or not _WHOLE.fullmatch(text):
        raise DurationError(
            f"{text[:_LONGEST_TEXT]!r} is not a duration; write a number and a unit, such as 10s or 1m30s"
        )
    return sum(float(number) * _UNITS[unit] for number, unit in _PARTS.findall(text))
