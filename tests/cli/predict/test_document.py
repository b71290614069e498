"""What docs/prediction.md shows is what the commands say."""

import re
from pathlib import Path

import pytest

from tests.cli.predict import CASES

_TEXT = (Path(__file__).parents[3] / "docs" / "prediction.md").read_text()
_SHOWN = re.findall(r"```console\n(.*?)```", _TEXT, re.DOTALL)
_SAID = [case.read_text() for case in sorted(CASES.glob("*/expected"))]


def test_something_is_shown() -> None:
    assert _SHOWN


@pytest.mark.parametrize("shown", _SHOWN, ids=lambda text: text.splitlines()[0])
def test_what_is_shown_is_what_a_case_says(shown: str) -> None:
    """Word for word."""
    assert any(shown in said for said in _SAID)
