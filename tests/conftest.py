"""Settings of all tests: property tests have no deadline, so that they do not fail on a busy machine.

A run tries three in ten of the examples that a property test sets, different ones each time; `make thorough` tries ten
times as many as it sets.
"""

import gc
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.slow import is_passed_over, is_slow

os.environ["KUBECONFIG"] = os.devnull
"""No test reads the kubeconfig of the person who runs it: its context has the default namespace of commands."""

settings.register_profile("tallygate", max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("thorough", settings.get_profile("tallygate"), max_examples=1000)
settings.load_profile("tallygate")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Pass over the files of which the run selects nothing, so that no worker imports them."""
    return is_passed_over(collection_path, config.getoption("markexpr")) or None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of the table as slow."""
    for item in items:
        if is_slow(item.path):
            item.add_marker("slow")


def pytest_collection_finish() -> None:
    """Exclude collected tests from garbage collection, because they stay until the end."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
