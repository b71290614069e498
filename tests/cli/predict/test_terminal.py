"""`tallygate predict` at a terminal: bars and colours, which a pipe is spared."""

import re

import pytest

from tests.cli.predict import CASES
from tests.cli.terminal import printed

CASE = CASES / "a_pending_pod_is_explained"
ARGUMENTS = ["predict", "pod/train-0", "--namespace", "team-a", "--snapshot", "snapshot.yaml", "-v"]


def shown(columns: int, *more: str) -> str:
    """What stands there, without what makes it bold."""
    return re.sub(r"\x1b\[[0-9;]*m", "", printed([*ARGUMENTS, *more], columns, CASE))


def test_each_node_has_a_bar_of_what_is_used_asked_and_free() -> None:
    """In tenths, rounded up: three of four used, the last of them asked for."""
    rows = {line.split()[0]: line for line in shown(250).splitlines() if line.startswith(("gpu", "ml"))}
    assert "████████▒▒" in rows["gpu-1"]
    assert "█████▒▒▒▒▒" in rows["gpu-2"]
    assert "▒▒▒▒▒▒▒▒░░" in rows["ml-1"]


def test_verdicts_and_answers_are_coloured() -> None:
    """Unless NO_COLOR says otherwise."""
    assert "\x1b[33mnot now" in printed(ARGUMENTS, 250, CASE)
    assert "\x1b[31mnever" in printed(ARGUMENTS, 250, CASE)
    assert "\x1b[3" not in printed(ARGUMENTS, 250, CASE, NO_COLOR="1")


@pytest.mark.parametrize("columns", [40, 80])
def test_a_narrow_terminal_folds_and_loses_nothing(columns: int) -> None:
    """Neither of the sentence nor of a reason."""
    letters = re.sub(r"\s", "", shown(columns))
    assert sorted(letters) == sorted(re.sub(r"\s", "", shown(400)))


def test_a_pipe_is_spared_bars() -> None:
    """As the expected output of every case is."""
    assert "█" not in (CASE / "expected").read_text()
