"""The table of slow tests names what exists, and each run collects its own part."""

from pathlib import Path

import pytest

from tests.slow import QUICK_ONLY, SLOW, SLOW_ONLY, TESTS, is_passed_over, is_slow


@pytest.mark.parametrize("name", SLOW)
def test_each_slow_file_exists_once(name: str) -> None:
    assert (TESTS / name).exists()
    assert not any(is_slow(parent) for parent in (TESTS / name).parents)


@pytest.mark.parametrize(
    ("name", "expression", "expected"),
    [
        ("gate/simulation/test_schedules.py", QUICK_ONLY, True),
        ("gate/simulation/test_schedules.py", SLOW_ONLY, False),
        ("gate/simulation/test_schedules.py", "", False),
        ("gate/test_gate.py", QUICK_ONLY, False),
        ("gate/test_gate.py", SLOW_ONLY, True),
        ("gate", SLOW_ONLY, False),
    ],
)
def test_a_run_imports_the_files_that_it_selects(name: str, expression: str, expected: bool) -> None:  # noqa: FBT001
    assert is_passed_over(TESTS / name, expression) is expected


def test_a_file_elsewhere_is_imported(tmp_path: Path) -> None:
    assert not is_passed_over(tmp_path / "test_other.py", SLOW_ONLY)
