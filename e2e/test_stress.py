"""Stress tests of caps as by `python -m e2e.stress`, only small; and their watch, without a gate."""

from collections.abc import Iterator

import pytest

from e2e.local.cluster import LocalCluster
from e2e.ports import NotHereError, Site
from e2e.stress.claim_storms import overload_with_claims, reallocate_claims
from e2e.stress.clients import send_requests
from e2e.stress.device_claims import (
    allocate,
    choose_alternatives,
    create_claim,
    create_claims,
    deallocate,
    delete_claim,
    track_devices,
    watch_devices,
)
from e2e.stress.enforced_usage import EnforcedUsage
from e2e.stress.environment import StressEnvironment, prepare_environment
from e2e.stress.faults import KILLED
from e2e.stress.filling import track_namespace
from e2e.stress.leader_failure import kill_leader
from e2e.stress.objects import GPU, creates, delete
from e2e.stress.overload import Gates, Size, overload_cap
from e2e.stress.pod_usage import Limit
from e2e.stress.switched_caps import STEPS, switch_caps
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


def test_exactly_as_many_pods_and_claims_are_stored_as_the_cap_allows_while_a_replica_dies(
    environment: StressEnvironment,
) -> None:
    found = overload_with_claims(environment, _SMALL, Gates(count=2, bound=_BOUND, fault=KILLED))
    assert (found.peak, found.unmet) == (_SMALL.hard, [])


def test_allocations_that_are_refused_and_tried_again_never_exceed_a_cap(environment: StressEnvironment) -> None:
    size = Size(pods=300, hard=20, clients=8)
    found = reallocate_claims(environment, size)
    assert (found.peak, found.unmet) == (size.hard, [])


def test_the_watches_of_a_stress_test_see_devices_above_a_cap(environment: StressEnvironment) -> None:
    """Have two pods, a claim that gets one device of two, loses it and gets two, and a claim for one device."""
    with environment.namespaces() as (namespace,):
        usage = track_devices(namespace, 3)
        with watch_devices(environment, usage) as watchers:
            requests = [
                *creates(namespace, ["pod-0", "pod-1"]),
                create_claim(namespace, "either", choose_alternatives()),
                allocate(namespace, "either", 1),
                deallocate(namespace, "either"),
                allocate(namespace, "either", 2),
                *create_claims(namespace, ["one"]),
                delete_claim(namespace, "either"),
            ]
            send_requests(environment.access, 1, requests)
            for each in watchers:
                each.until_current()
    assert (usage.peak, usage.now(namespace), usage.is_over) == (5, 3, True)


def test_the_watch_of_a_stress_test_sees_use_above_a_cap(environment: StressEnvironment) -> None:
    with environment.namespaces() as (namespace,):
        usage = track_namespace(namespace, 5)
        with Watcher(environment.access, [usage]) as watcher:
            send_requests(environment.access, 8, creates(namespace, (f"pod-{number}" for number in range(20))))
            watcher.until_current()
    assert (usage.peak, usage.is_over) == (20, True)


def test_the_watch_of_a_stress_test_sees_that_the_use_grows_above_a_cap_once_that_is_enforced(
    environment: StressEnvironment,
) -> None:
    """Have 7 pods when a cap of 5 begins, 6 after a deletion, and 7 again."""
    with environment.namespaces() as (namespace,):
        usage = EnforcedUsage(Limit(5, GPU, lambda where, _: where if where == namespace else None))
        with Watcher(environment.access, [usage]) as watcher:
            names = [f"pod-{number}" for number in range(8)]
            send_requests(environment.access, 1, creates(namespace, names[:7]))
            watcher.until_current()
            usage.enforce([namespace])
            send_requests(environment.access, 1, [delete(namespace, names[0])])
            watcher.until_current()
            assert (usage.now(namespace), usage.peak, usage.excess) == (6, 5, {})
            send_requests(environment.access, 1, creates(namespace, names[7:]))
            watcher.until_current()
    assert (usage.now(namespace), usage.peak, usage.excess) == (7, 6, {namespace: 1})


def test_a_new_cap_is_never_exceeded_although_an_api_server_asks_about_it_late(environment: StressEnvironment) -> None:
    """Switch a cap on while the watches of one of two API servers are silent; the cap becomes active after that."""
    found = switch_caps(environment, STEPS[:1])
    assert (found.is_over, found.unmet) == (False, [])
