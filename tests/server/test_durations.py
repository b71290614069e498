"""Durations: those that Go parses, and no others."""

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallygate.server.settings.value_types import DurationError, parse_duration
from tests.effort import examples

GOOD = {
    "0": 0.0,
    "10s": 10.0,
    "1m30s": 90.0,
    "1h2m3s": 3723.0,
    "250ms": 0.25,
    "1.5s": 1.5,
    ".5s": 0.5,
    "5.s": 5.0,
    "3us": 3e-6,
    "3µs": 3e-6,
    "7ns": 7e-9,
    "1s1s": 2.0,
}
BAD = (
    "",
    " ",
    "10",
    "s",
    "-1s",
    "+1s",
    "1 s",
    "1d",
    "1S",
    ".s",
    "1e3s",
    "٣s",
    "1s ",
    "1s\n",
    "0x1s",
    "9" * 10 + "s",
    "1s" * 33,
)


@pytest.mark.parametrize("text", GOOD)
def test_a_duration_has_its_seconds(text: str) -> None:
    assert parse_duration(text) == pytest.approx(GOOD[text])


@pytest.mark.parametrize("text", BAD)
def test_an_invalid_duration_is_an_error(text: str) -> None:
    with pytest.raises(DurationError, match="is not a duration"):
        parse_duration(text)


@given(st.text(max_size=80))
@settings(max_examples=examples(100), deadline=None)
def test_any_text_is_a_duration_or_a_clear_error(text: str) -> None:
    with suppress(DurationError):
        assert parse_duration(text) >= 0
