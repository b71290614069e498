"""`tallygate usage` at a terminal: bars and colours, which a pipe is spared."""

import re

import pytest

from tests.cli.terminal import printed
from tests.cli.usage.case import CASES

CASE = CASES / "ledgers_give_what_is_used_and_reserved"
ARGUMENTS = ["usage", "--policies", "policies", "--snapshot", "snapshot.json"]


def shown(columns: int) -> str:
    """What stands there, without what makes it bold."""
    return re.sub(r"\x1b\[[0-9;]*m", "", printed(ARGUMENTS, columns, CASE))


def test_each_ledger_is_a_paragraph_with_bars() -> None:
    """Held, promised and free in tenths, rounded up, so that what is held is never shown as nothing."""
    assert [line.rstrip() for line in shown(100).splitlines()[:4]] == [
        "  RESOURCE        HARD  SOFT  USED   RESERVED  FREE  UTILIZATION",
        "gpus  team-a, counted 2026-11-21T09:30:00Z",
        "  limits.memory   24Gi  -     12Gi   1Gi       11Gi  █████▒░░░░   4Gi of them terminating",
        "  nvidia.com/gpu  8     6     8      1         0     ██████████   1 over hard; 1 of them terminating",
    ]


def test_what_is_over_is_coloured() -> None:
    """Over hard in red, over soft in yellow; NO_COLOR switches that off."""
    text = printed(ARGUMENTS, 200, CASE)
    red, yellow = (
        next(line for line in text.splitlines() if words in line) for words in ("1 over hard", "2 over soft")
    )
    assert "\x1b[1;31m" in red
    assert "\x1b[33m" in yellow
    assert "\x1b[1;31m" not in printed(ARGUMENTS, 200, CASE, NO_COLOR="1")


@pytest.mark.parametrize("columns", [40, 80])
def test_a_narrow_terminal_folds_and_loses_nothing(columns: int) -> None:
    """Words stay whole."""
    assert shown(columns).split() == shown(200).split()


def test_a_pipe_is_spared_bars() -> None:
    """As the expected output of every case is."""
    assert "█" not in (CASE / "expected").read_text()
