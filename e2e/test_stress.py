"""Stress tests of caps as by `python -m e2e.stress`, only small; and their watch, without a gate."""

from collections.abc import Iterator

import pytest

from e2e.local.cluster import LocalCluster
from e2e.ports import NotHereError, Site
from e2e.stress.clients import send_requests
from e2e.stress.environment import StressEnvironment, prepare_environment
from e2e.stress.faults import KILLED
from e2e.stress.filling import track_namespace
from e2e.stress.leader_failure import kill_leader
from e2e.stress.objects import creates
from e2e.stress.overload import Gates, Size, overload_cap
from e2e.stress.watch_faults import cut_watches
from e2e.stress.watcher import Watcher

_SMALL = Size(pods=100, hard=50, clients=8)
_BOUND = 5.0  # seconds


@pytest.fixture(scope="module")
def environment(site: Site) -> Iterator[StressEnvironment]:
    """Prepare the environment of stress tests."""
    if not isinstance(site.cluster, LocalCluster):
        raise NotHereError("stress tests need several gates as processes, beside the local control plane")
    with prepare_environment(site.cluster) as made:
        yield made


@pytest.mark.parametrize(
    "gates",
    [Gates(count=2, bound=_BOUND, fault=KILLED), Gates(count=1, ledgers="memory", bound=_BOUND)],
    ids=["a replica dies", "in memory"],
)
def test_exactly_as_many_pods_are_stored_as_the_cap_allows(environment: StressEnvironment, gates: Gates) -> None:
    found = overload_cap(environment, _SMALL, gates)
    assert (found.peak, found.unmet) == (_SMALL.hard, [])


def test_no_more_pods_are_stored_while_the_watches_of_the_gates_are_cut_and_stalled(
    environment: StressEnvironment,
) -> None:
    size = Size(pods=600, hard=300, clients=8)
    found = cut_watches(environment, size)
    assert (found.peak, found.unmet) == (size.hard, [])


def test_another_replica_replaces_a_killed_leader_and_unused_reservations_expire(
    environment: StressEnvironment,
) -> None:
    found = kill_leader(environment, _SMALL)
    assert (found.peak, found.unmet) == (_SMALL.hard, [])


def test_the_watch_of_a_stress_test_sees_use_above_a_cap(environment: StressEnvironment) -> None:
    with environment.namespaces() as (namespace,):
        usage = track_namespace(namespace, 5)
        with Watcher(environment.access, [usage]) as watcher:
            send_requests(environment.access, 8, creates(namespace, (f"pod-{number}" for number in range(20))))
            watcher.until_current()
    assert (usage.peak, usage.is_over) == (20, True)
