"""`tallygate predict` in a terminal: bars and colours, which a pipe does not get."""

import re
from collections import Counter

import pytest

from tests.cli.predict import CASES
from tests.cli.terminal import run_in_terminal

CASE = CASES / "a_pending_pod_is_explained"
ARGUMENTS = ["predict", "pod/train-0", "-n", "team-a", "--snapshot", "snapshot.yaml", "-v"]


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


@pytest.mark.parametrize("columns", [50, 80, 100])
def test_a_narrow_terminal_breaks_no_name(columns: int) -> None:
    """Print each word of the full width, and no others, within the terminal; only bars and scores may be missing."""
    text = read_terminal(columns)
    words, all_words = Counter(text.split()), Counter(read_terminal(400).split())
    assert words <= all_words
    assert not [word for word in all_words - words if not re.fullmatch(r"[█▒░]+|\d+|-|USED|BALANCE|FIT|COPIES", word)]
    assert max(map(len, text.splitlines())) <= columns


def test_a_narrow_terminal_leaves_out_columns_in_order() -> None:
    """Leave out bars first, then the scores, then the copies."""
    headers = [
        next(line.split() for line in read_terminal(columns).splitlines() if line.startswith("NODE"))
        for columns in (120, 100, 90, 80)
    ]
    assert headers == [
        ["NODE", "ANSWER", "COPIES", "FIT", "BALANCE", "TIGHTEST", "USED", "REASON"],
        ["NODE", "ANSWER", "COPIES", "FIT", "BALANCE", "TIGHTEST", "REASON"],
        ["NODE", "ANSWER", "COPIES", "FIT", "TIGHTEST", "REASON"],
        ["NODE", "ANSWER", "COPIES", "TIGHTEST", "REASON"],
    ]


def test_a_reason_is_wrapped_below_its_own_column() -> None:
    lines = read_terminal(80).splitlines()
    start = next(line.index("REASON") for line in lines if line.startswith("NODE"))
    row = next(number for number, line in enumerate(lines) if line.startswith("gpu-1 "))
    assert lines[row + 1][:start].isspace()
    assert lines[row + 1][start:].startswith("nvidia.com/gpu")


def test_a_pipe_gets_no_bars() -> None:
    assert "█" not in (CASE / "expected").read_text()
