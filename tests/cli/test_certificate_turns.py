"""When certificates are looked at: soon after a change, and later the longer changes go on."""

from itertools import pairwise

import pytest

from webhook.cli.serve.certificate_controller import DEBOUNCE_SECONDS, PROMPT_CHANGES, ChangeDebouncer

_LATEST = 1.2  # of what is meant, by chance


def _rests(count: int, pause: float) -> list[float]:
    """How long is rested after each of so many changes that come one right after the other."""
    found: list[float] = []
    turns = ChangeDebouncer(found.append)
    for _ in range(count):
        turns.notify()
        turns.wait(pause)
    return found


def test_the_first_changes_are_looked_at_at_once() -> None:
    assert max(_rests(PROMPT_CHANGES, 600.0)) <= _LATEST * DEBOUNCE_SECONDS


def test_changes_that_go_on_are_looked_at_later_and_later_until_it_is_as_if_nobody_had_been_told() -> None:
    pause = 600.0
    later = _rests(PROMPT_CHANGES + 30, pause)[PROMPT_CHANGES:]
    assert all(after > before for before, after in pairwise(later[:8]))
    assert later[-1] == pytest.approx(pause, rel=0.21)


def test_who_is_not_told_looks_when_it_is_time_and_is_prompt_again_after_that() -> None:
    found: list[float] = []
    turns = ChangeDebouncer(found.append)
    for _ in range(PROMPT_CHANGES + 6):
        turns.notify()
        turns.wait(600.0)
    assert found[-1] > _LATEST * DEBOUNCE_SECONDS
    turns.wait(0.01)
    turns.notify()
    turns.wait(600.0)
    assert found[-1] <= _LATEST * DEBOUNCE_SECONDS
    assert len(found) == PROMPT_CHANGES + 7
