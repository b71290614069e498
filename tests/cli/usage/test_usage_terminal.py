"""`tallygate usage` in a terminal: bars and colours, which a pipe does not get."""

import re

import pytest

from tests.cli.terminal import run_in_terminal
from tests.cli.usage.command_case import CASES

CASE = CASES / "ledgers_have_used_and_reserved_amounts"
ARGUMENTS = ["usage", "--policies", "policies", "--snapshot", "snapshot.json"]


def read_terminal(columns: int) -> str:
    """Return the output in a terminal without colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", run_in_terminal(ARGUMENTS, columns, CASE))


def test_each_ledger_is_a_paragraph_with_bars() -> None:
    """Print used, reserved and free amounts in tenths, rounded up, so that a used amount is never invisible."""
    assert [line.rstrip() for line in read_terminal(100).splitlines()[:4]] == [
        "  RESOURCE        HARD  SOFT  USED   RESERVED  FREE  UTILIZATION",
        "gpus  team-a, counted 2026-11-21T09:30:00Z",
        "  limits.memory   24Gi  -     12Gi   1Gi       11Gi  █████▒░░░░   4Gi of them terminating",
        "  nvidia.com/gpu  8     6     8      1         0     ██████████   1 over hard; 1 of them terminating",
    ]


def test_exceeded_limits_are_coloured() -> None:
    """Print excess over hard in red and over soft in yellow, unless NO_COLOR is set."""
    text = run_in_terminal(ARGUMENTS, 200, CASE)
    red, yellow = (
        next(line for line in text.splitlines() if text_part in line) for text_part in ("1 over hard", "2 over soft")
    )
    assert "\x1b[1;31m" in red
    assert "\x1b[33m" in yellow
    assert "\x1b[1;31m" not in run_in_terminal(ARGUMENTS, 200, CASE, NO_COLOR="1")


@pytest.mark.parametrize("columns", [40, 80])
def test_a_narrow_terminal_shows_all_but_the_bars(columns: int) -> None:
    """Break no name, and print no line that is wider than the terminal."""
    text = read_terminal(columns)
    assert text.split() == [word for word in read_terminal(200).split() if not re.match(r"[█▒░]|UTILIZATION", word)]
    assert max(map(len, text.splitlines())) <= columns


def test_a_note_is_wrapped_below_its_own_start() -> None:
    """Continue the note of a row in the column where it starts, not at the left margin."""
    lines = read_terminal(80).splitlines()
    row = next(number for number, line in enumerate(lines) if "1 over hard; 1 of them" in line)
    assert lines[row + 1] == " " * lines[row].index("1 over hard") + "terminating"


def test_a_pipe_gets_no_bars() -> None:
    assert "█" not in (CASE / "expected").read_text()
