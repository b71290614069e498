"""`tallygate predict` in a terminal: bars and colours, which a pipe does not get."""

import re

import pytest

from tests.cli.predict import CASES
from tests.cli.terminal import run_in_terminal

CASE = CASES / "a_pending_pod_is_explained"
ARGUMENTS = ["predict", "pod/train-0", "--namespace", "team-a", "--snapshot", "snapshot.yaml", "-v"]


def read_terminal(columns: int, *more: str) -> str:
    """Return the output in a terminal without colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", run_in_terminal([*ARGUMENTS, *more], columns, CASE))


def test_each_node_has_a_bar_of_used_requested_and_free_amounts() -> None:
    """Print tenths, rounded up: three of four are used, and one is requested."""
    rows = {line.split()[0]: line for line in read_terminal(250).splitlines() if line.startswith(("gpu", "ml"))}
    assert "████████▒▒" in rows["gpu-1"]
    assert "█████▒▒▒▒▒" in rows["gpu-2"]
    assert "▒▒▒▒▒▒▒▒░░" in rows["ml-1"]


def test_verdicts_and_answers_are_coloured() -> None:
    """Print no colours if NO_COLOR is set."""
    assert "\x1b[33mnot now" in run_in_terminal(ARGUMENTS, 250, CASE)
    assert "\x1b[31mnever" in run_in_terminal(ARGUMENTS, 250, CASE)
    assert "\x1b[3" not in run_in_terminal(ARGUMENTS, 250, CASE, NO_COLOR="1")


@pytest.mark.parametrize("columns", [40, 80])
def test_a_narrow_terminal_folds_lines_without_loss(columns: int) -> None:
    """Keep every letter of messages and reasons."""
    letters = re.sub(r"\s", "", read_terminal(columns))
    assert sorted(letters) == sorted(re.sub(r"\s", "", read_terminal(400)))


def test_a_pipe_gets_no_bars() -> None:
    assert "█" not in (CASE / "expected").read_text()
