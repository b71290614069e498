"""The examples in docs/concepts/prediction.md are output of the commands."""

import re
from pathlib import Path

import pytest

from tests.cli.predict import CASES

_TEXT = (Path(__file__).parents[3] / "docs" / "concepts" / "prediction.md").read_text()
_EXAMPLES = re.findall(r"```console\n(.*?)```", _TEXT, re.DOTALL)
_OUTPUTS = [case.read_text() for case in sorted(CASES.glob("*/expected"))]


def test_the_page_has_examples() -> None:
    assert _EXAMPLES


@pytest.mark.parametrize("example", _EXAMPLES, ids=lambda text: text.splitlines()[0])
def test_every_example_is_output_of_a_case(example: str) -> None:
    assert any(example in output for output in _OUTPUTS)
