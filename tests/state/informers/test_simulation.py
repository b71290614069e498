"""Hours with a server and a network at their worst: the view is never wrong, and never fresher than it says.

And once things go well again, it is current within the times that docs/watches.md promises.
"""

from random import Random

import pytest

from tests.kube.scripted_server import FakeClock
from tests.state.informers.simulated_cluster import Cluster, Simulated
from webhook.kube.api_errors import ApiErrorReason
from webhook.kube.reflector import Reflector, ReflectorStatus, WatchTimeouts
from webhook.kube.resource_codec import Deleted
from webhook.state.informers.pod_store import PodStore

_TROUBLE_SECONDS = 1800.0
_CALM_SECONDS = 420.0  # a view may be in doubt for 300 s, is then listed anew, and asks again soon after


@pytest.mark.parametrize("trouble", [0.0, 0.02, 0.1, 0.3])
@pytest.mark.parametrize("seed", range(3))
def test_a_view_is_what_was_there_at_its_revision_and_as_old_as_it_says(seed: int, trouble: float) -> None:
    now = _played(seed, trouble)
    if not trouble:
        assert (now.lists, set(now.restarts)) == (1, {ApiErrorReason.ENDED})


def test_the_simulation_knows_every_trouble_that_is_followed_by_a_new_beginning() -> None:
    met = {reason for seed in range(4, 8) for reason in _played(seed, 0.3).restarts}
    names = "BEHIND BUSY ENDED EXPIRED FORBIDDEN RESET SERVER_ERROR SILENT TIMEOUT TRUNCATED UNAUTHORIZED UNREADABLE"
    assert met >= {ApiErrorReason[name] for name in names.split()}


def _played(seed: int, trouble: float) -> ReflectorStatus:
    """Half an hour of trouble, and calm after it; how the view stands in the end."""
    chance = Random(f"{seed} {trouble}")  # noqa: S311  # to be played again
    clock = FakeClock()
    cluster = Cluster(clock, chance)
    server = Simulated(cluster, trouble)
    view = PodStore()
    reflector = Reflector(view.codec, server, _Living(cluster), chance.random, WatchTimeouts(poll_interval=0.5))
    run = reflector.events()
    deleted: dict[str, int] = {}
    ends = clock.time + _TROUBLE_SECONDS
    while clock.time < ends + _CALM_SECONDS:
        if clock.time > ends:
            server.trouble, server.hangs_until = 0.0, min(server.hangs_until, ends)
        event = next(run)
        if event is not None:
            view.apply(event)
            if isinstance(event, Deleted):
                deleted[event.item.uid] = event.revision
            _is_right(view, cluster, deleted)
        _is_honest(reflector.get_status().age, view, cluster)
    now = reflector.get_status()
    assert now.age is not None
    assert now.age < 80
    assert now.stale is None
    return now


class _Living:
    """The cluster goes on while the reflector rests."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def now(self) -> float:
        """The time."""
        return self._cluster.clock.time

    def sleep(self, seconds: float) -> None:
        """Let it pass."""
        self._cluster.live(seconds)


def _is_right(view: PodStore, cluster: Cluster, deleted: dict[str, int]) -> None:
    assert view.revision is not None
    found = {place.uid: str(place.revision) for place in view.list_pods("team-a")}
    assert found == cluster.at(view.revision)
    gone = {written.item["metadata"]["uid"] for written in cluster.history if written.kind == "DELETED"}
    assert deleted.keys() <= gone
    assert all(view.get_deletion_revision(uid) == revision for uid, revision in deleted.items())


def _is_honest(age: float | None, view: PodStore, cluster: Cluster) -> None:
    if age is not None:
        assert view.revision is not None
        assert view.revision >= cluster.revision_at(cluster.clock.time - age - 1e-6)
