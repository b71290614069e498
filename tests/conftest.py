"""How the tests run: property tests judge answers, not seconds, so a busy machine fails none of them.

Of the examples that a property test names, a run tries three in ten, others every time; `make thorough` tries ten times
as many as it names.
"""

import gc

from hypothesis import HealthCheck, settings

settings.register_profile("tallygate", max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("thorough", settings.get_profile("tallygate"), max_examples=1000)
settings.load_profile("tallygate")


def pytest_collection_finish() -> None:
    """What has been collected stays to the end: the garbage collector need not go through it again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
