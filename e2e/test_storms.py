"""Storms on caps as `python -m e2e.storm` brings them, only small; and their watch sees what no gate holds back."""

from collections.abc import Iterator

import pytest

from e2e.local.cluster import LocalCluster
from e2e.ports import NotHereError, Site
from e2e.storm.clients import ask
from e2e.storm.crowds import Gates, Size, crowd
from e2e.storm.faults import KILLED
from e2e.storm.filling import in_namespace
from e2e.storm.ground import Ground, ground
from e2e.storm.led import leader_killed
from e2e.storm.objects import creates
from e2e.storm.unwatched import watch_cut
from e2e.storm.watcher import Watcher

_SMALL = Size(pods=100, hard=50, clients=8)
_BOUND = 5.0  # seconds


@pytest.fixture(scope="module")
def storms(site: Site) -> Iterator[Ground]:
    """Where storms can be brought."""
    if not isinstance(site.cluster, LocalCluster):
        raise NotHereError("storms need several gates as processes, beside the local control plane")
    with ground(site.cluster) as made:
        yield made


@pytest.mark.parametrize(
    "gates",
    [Gates(count=2, bound=_BOUND, fault=KILLED), Gates(count=1, ledgers="memory", bound=_BOUND)],
    ids=["a replica dies", "in memory"],
)
def test_just_as_many_pods_are_stored_as_there_is_room_for(storms: Ground, gates: Gates) -> None:
    found = crowd(storms, _SMALL, gates)
    assert (found.most, found.unmet) == (_SMALL.hard, [])


def test_no_more_are_stored_while_the_gates_watches_are_cut_and_held_up(storms: Ground) -> None:
    size = Size(pods=600, hard=300, clients=8)
    found = watch_cut(storms, size)
    assert (found.most, found.unmet) == (size.hard, [])


def test_another_takes_over_whose_leader_is_killed_and_promises_that_came_to_nothing_leave_their_room(
    storms: Ground,
) -> None:
    found = leader_killed(storms, _SMALL)
    assert (found.most, found.unmet) == (_SMALL.hard, [])


def test_the_watch_of_a_storm_sees_what_is_held_above_a_cap(storms: Ground) -> None:
    with storms.namespaces() as (namespace,):
        holding = in_namespace(namespace, 5)
        with Watcher(storms.access, [holding]) as watcher:
            ask(storms.access, 8, creates(namespace, (f"pod-{number}" for number in range(20))))
            watcher.until_current()
    assert (holding.most, holding.is_over) == (20, True)
