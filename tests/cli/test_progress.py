"""Progress bars, which only a terminal gets."""

import sys
from pathlib import Path

import pytest

from tallygate.cli import progress
from tests.cli.terminal import run_in_terminal

SLOW = """\
from tallygate.cli import progress; from tallygate.cli.app import main
import sys
progress._SHOW_AFTER_SECONDS = -1.0
sys.argv = ["tallygate", "check", "."]
main()
"""


def test_tracked_items_are_unchanged(capsys: pytest.CaptureFixture[str]) -> None:
    """Print nothing for a short iteration."""
    assert list(progress.track("counting", range(5))) == [0, 1, 2, 3, 4]
    assert list(progress.track_files(iter("ab"))) == ["a", "b"]
    assert capsys.readouterr().err == ""


def test_a_terminal_gets_the_progress_of_a_long_iteration(tmp_path: Path) -> None:
    """Print the count and the total, and remove the bar at the end."""
    for number in range(3):
        (tmp_path / f"{number}.yaml").write_text("apiVersion: v1\nkind: Service\nmetadata: {name: s}\n")
    text = run_in_terminal([], 100, tmp_path, command=SLOW)
    assert "reading files" in text
    assert "checking objects" in text
    assert "3/3" in text or "2/3" in text
    assert "0 objects in 3 files: nothing found" in text


def test_a_pipe_gets_no_progress(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(progress, "_SHOW_AFTER_SECONDS", -1.0)
    assert not sys.stderr.isatty()
    assert len(list(progress.track("counting", range(5)))) == 5
    assert capsys.readouterr().err == ""


LISTS = """\
from types import SimpleNamespace
from tallygate.cli import progress
from tallygate.cli.sources.resource_lists import list_creators
from tallygate.kube.transport import Response
progress._SHOW_AFTER_SECONDS = -1.0
client = SimpleNamespace(server="", get=lambda *_: Response(200, b'{"metadata": {}, "items": [{}, {}]}'))
print([kind for kind, _ in list_creators(client, print)].count("Job"))
"""


def test_a_terminal_gets_the_progress_of_the_lists_of_rejected_pods(tmp_path: Path) -> None:
    text = run_in_terminal([], 100, tmp_path, command=LISTS)
    for resource in ("replicasets", "jobs", "events"):
        assert f"listing {resource}" in text
    assert text.endswith("2\n")
