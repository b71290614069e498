"""Times in policies and scenarios: a time with its zone, or the end of a day; both are in UTC once they are read."""

import re
from datetime import MAXYEAR, UTC, datetime, timedelta

from tallygate.errors import TallygateError

_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_TIME = re.compile(rf"{_DAY.pattern}T[0-9]{{2}}:[0-9]{{2}}(?::[0-9]{{2}})?(?:Z|[+-][0-9]{{2}}:[0-9]{{2}})", re.ASCII)
_EXAMPLE = "write a time with its zone, as in 2026-12-04T18:00:00Z"


class TimeError(TallygateError):
    """A text that is neither a time with its zone nor, where that is enough, a date."""


def parse_time(text: str) -> datetime:
    """Return a time that is written with its zone.

    Raises:
        TimeError: if the text is no such time.
    """
    if not _TIME.fullmatch(text):
        raise TimeError(_suggest_time(text) or _EXAMPLE)
    try:
        time = datetime.fromisoformat(text).astimezone(UTC)
    except (OverflowError, ValueError) as error:
        reason = "its zone is more than a day away" if "timedelta" in str(error) else error
        raise TimeError(f"{reason}; {_EXAMPLE}") from None
    if time.year == MAXYEAR:  # some time must be left after it
        raise TimeError(f"{MAXYEAR} is the last year of the calendar; {_EXAMPLE}")
    return time


def parse_end_time(text: str) -> datetime:
    """Return the time at which an override ends; a date is the end of that day, in UTC.

    Raises:
        TimeError: if the text is neither a time with its zone nor a date.
    """
    if not _DAY.fullmatch(text):
        try:
            return parse_time(text)
        except TimeError as error:
            raise TimeError(f"{error}, or a date, as in 2026-12-04, for the end of that day in UTC") from None
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC) + timedelta(days=1)
    except OverflowError:
        raise TimeError("leave the end out for an override that does not end") from None
    except ValueError as error:
        raise TimeError(f"{error}; write a date of the calendar, as in 2026-12-04") from None


def _suggest_time(text: str) -> str:
    """Return the advice to write the probable time, or an empty text."""
    for zone in ("", "Z"):
        suggestion = f"{text.strip().upper().replace(' ', 'T', 1)}{zone}"
        if _TIME.fullmatch(suggestion):
            return f'write "{suggestion}"' + (", or its zone, as in +01:00" if zone else "")
    return ""


def format_time(time: datetime) -> str:
    """Return a time as it may be written in a policy, without seconds that are 0."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ" if time.second else "%Y-%m-%dT%H:%MZ")
