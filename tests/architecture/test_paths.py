"""The number of modules that a path enters, which may only fall."""

import pytest

from tests.paths.runs import RUNS, run_cold

_MAX_MODULES = {"create": 50, "predict": 60, "policy-edit": 31, "ledger-write": 11}


@pytest.mark.parametrize("name", RUNS)
def test_a_path_enters_no_more_modules_than_its_limit(name: str) -> None:
    modules = run_cold(name)
    assert len(set(modules)) == len(modules)
    assert len(modules) <= _MAX_MODULES[name], "\n".join(modules)


def test_every_path_has_its_limit() -> None:
    assert set(_MAX_MODULES) == set(RUNS)
