"""The names that users see, compared with the recorded ones."""

import json

import pytest

from tests.architecture.surface import PATH, list_surface

RECORDED = json.loads(PATH.read_text("utf-8"))


@pytest.mark.parametrize("part", RECORDED)
def test_the_names_that_users_see_are_the_recorded_ones(part: str) -> None:
    assert list_surface()[part] == RECORDED[part], "run `python -m tests.architecture.surface` where this is meant"


def test_every_part_is_recorded_and_none_is_empty() -> None:
    assert set(RECORDED) == set(list_surface())
    assert all(RECORDED.values())
