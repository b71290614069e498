"""The notes of `tallygate usage` about guarantees: the part of FREE that is not for all, and who has none."""

import json
from pathlib import Path

from click.testing import CliRunner

from tallygate.cli.app import root
from tests.cli.cap_checks import CAP, namespaces, pod

_GUARANTEED = (CAP % "true").replace("hard:", "guarantee: [{namespaces: ['*'], amounts: {nvidia.com/gpu: 3}}]\n  hard:")


def _read_lines(folder: Path, names: int, *arguments: str) -> list[str]:
    """Return the lines about GPUs of a cluster with namespaces that are guaranteed 3 of 8; one of them uses 2."""
    (folder / "cap.yaml").write_text(_GUARANTEED)
    (folder / "snapshot").write_text(
        json.dumps(
            {
                "kind": "List",
                "items": [
                    *namespaces(**{f"n{number:04}": "yes" for number in range(names)}),
                    pod("p", 2, "n0000"),
                ],
            }
        )
    )
    options = ["--policies", f"{folder / 'cap.yaml'}", "--snapshot", f"{folder / 'snapshot'}"]
    result = CliRunner().invoke(root, ["usage", *options, *arguments])
    return [line for line in result.output.splitlines() if "nvidia.com/gpu" in line]


def test_the_part_of_free_that_only_owners_may_take_is_in_the_note(tmp_path: Path) -> None:
    (line,) = _read_lines(tmp_path, 2)
    assert "6 guaranteed to 2 namespaces, 4 of it unspent (4 of FREE for them alone)" in line
    (line,) = _read_lines(tmp_path, 2, "-n", "n0000")
    assert "for them alone" not in line


def test_guarantees_above_the_limit_are_in_the_note(tmp_path: Path) -> None:
    (line,) = _read_lines(tmp_path, 3)
    assert "9 guaranteed to 3 namespaces, 1 above hard, 7 of it unspent (6 of FREE for them alone)" in line


def test_namespaces_beyond_the_most_that_have_a_guarantee_are_counted(tmp_path: Path) -> None:
    (line,) = _read_lines(tmp_path, 503)
    assert " 3 more match guarantees and have none: a ledger has at most 500" in line
    (line,) = _read_lines(tmp_path, 500)
    assert "more match guarantees" not in line
