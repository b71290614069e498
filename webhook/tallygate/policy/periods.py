"""Periods in policies: whole hours, minutes and seconds, as in `15m` or `1h30m`."""

import re

from tallygate.errors import TallygateError

MAX_PERIOD_SECONDS = 24 * 3600
"""A rollout ends within a day; a cap that may be exceeded for longer is a larger cap."""

MAX_RUN_TIME_SECONDS = 30 * MAX_PERIOD_SECONDS
"""A pod that runs for longer is a service, which no deadline fits."""

_PERIOD = re.compile(r"(?:([0-9]{1,5})h)?(?:([0-9]{1,5})m)?(?:([0-9]{1,5})s)?")
_SECONDS = (3600, 60, 1)


class PeriodError(TallygateError, ValueError):
    """The text is not a period."""


def format_period(seconds: int) -> str:
    """Return a period as it is written: `1h30m`."""
    hours, rest = divmod(seconds, 3600)
    minutes, seconds = divmod(rest, 60)
    return "".join(f"{number}{unit}" for number, unit in ((hours, "h"), (minutes, "m"), (seconds, "s")) if number)


class Seconds(int):
    """A number of seconds that is written as a period of a day at most."""


class RunTime(int):
    """A number of seconds that is written as a period of 30 days at most."""


def parse_period(text: str) -> Seconds:
    """Return a period in seconds.

    Raises:
        PeriodError: if the text is not a period, or is 0 or more than a day.
    """
    return Seconds(_parse_seconds(text, MAX_PERIOD_SECONDS, "a day"))


def parse_run_time(text: str) -> RunTime:
    """Return the time that a pod may run, in seconds.

    Raises:
        PeriodError: if the text is not a period, or is 0 or more than 30 days.
    """
    return RunTime(_parse_seconds(text, MAX_RUN_TIME_SECONDS, "30 days"))


def _parse_seconds(text: str, most: int, most_in_days: str) -> int:
    match = _PERIOD.fullmatch(text)
    if match is None or not text:
        raise PeriodError("is not a period; write hours, minutes and seconds, as in 15m or 1h30m")
    seconds = sum(int(number or 0) * unit for number, unit in zip(match.groups(), _SECONDS, strict=True))
    if not seconds:
        raise PeriodError(f"is not a time; write a period from 1s to {format_period(most)}, as in 15m")
    if seconds > most:
        raise PeriodError(f"is more than {most_in_days}; write a period up to {format_period(most)}, as in 15m")
    return seconds
