"""Progress: for who waits at a terminal, and nobody else."""

import sys
from pathlib import Path

import pytest

from tests.cli.terminal import printed
from webhook.cli import progress

SLOW = """\
from webhook.cli import progress; from webhook.cli.app import main
import sys
progress._SHOW_AFTER_SECONDS = -1.0
sys.argv = ["tallygate", "check", "."]
main()
"""


def test_things_come_through_unchanged(capsys: pytest.CaptureFixture[str]) -> None:
    """And quickly, without a word."""
    assert list(progress.track("counting", range(5))) == [0, 1, 2, 3, 4]
    assert list(progress.track_files(iter("ab"))) == ["a", "b"]
    assert capsys.readouterr().err == ""


def test_a_long_wait_is_shown_at_a_terminal(tmp_path: Path) -> None:
    """With how much is done of how much; it is gone when the work is."""
    for number in range(3):
        (tmp_path / f"{number}.yaml").write_text("apiVersion: v1\nkind: Service\nmetadata: {name: s}\n")
    text = printed([], 100, tmp_path, command=SLOW)
    assert "reading files" in text
    assert "checking objects" in text
    assert "3/3" in text or "2/3" in text
    assert "0 objects in 3 files: nothing found" in text


def test_a_pipe_is_spared(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """However long it takes."""
    monkeypatch.setattr(progress, "_SHOW_AFTER_SECONDS", -1.0)
    assert not sys.stderr.isatty()
    assert len(list(progress.track("counting", range(5)))) == 5
    assert capsys.readouterr().err == ""
