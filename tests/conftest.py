"""Settings of all tests: property tests have no deadline, so that they do not fail on a busy machine.

A run tries three in ten of the examples that a property test sets, different ones each time; `make thorough` tries ten
times as many as it sets.
"""

import gc
import os

from hypothesis import HealthCheck, settings

os.environ["KUBECONFIG"] = os.devnull
"""No test reads the kubeconfig of the person who runs it: its context has the default namespace of commands."""

settings.register_profile("tallygate", max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("thorough", settings.get_profile("tallygate"), max_examples=1000)
settings.load_profile("tallygate")


def pytest_collection_finish() -> None:
    """Exclude collected tests from garbage collection, because they stay until the end."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
