"""Hours with a faulty server and network: the pod store is never wrong, and never older than its age.

After the faults it is current within the times of docs/design/watches.md.
"""

from random import Random

import pytest

from tallygate.kube.api_errors import ApiErrorReason
from tallygate.kube.reflector import Reflector, ReflectorStatus, WatchTimeouts
from tallygate.kube.resource_codec import Deleted
from tallygate.state.informers.pod_store import PodStore
from tests.kube.scripted_server import FakeClock
from tests.state.informers.simulated_cluster import Cluster, SimulatedTransport

_TROUBLE_SECONDS = 1800.0
_CALM_SECONDS = 420.0  # a store may be in doubt for 300 s, is then listed again, and its watch restarts soon after


@pytest.mark.parametrize("trouble", [0.0, 0.02, 0.1, 0.3])
@pytest.mark.parametrize("seed", range(3))
def test_a_store_has_the_pods_of_its_revision_and_reports_its_age(seed: int, trouble: float) -> None:
    now = _simulate(seed, trouble)
    if not trouble:
        assert (now.lists, set(now.restarts)) == (1, {ApiErrorReason.ENDED})


def test_the_simulation_meets_every_reason_of_a_restart() -> None:
    reasons = {reason for seed in range(4, 8) for reason in _simulate(seed, 0.3).restarts}
    names = "BEHIND BUSY ENDED EXPIRED FORBIDDEN RESET SERVER_ERROR SILENT TIMEOUT TRUNCATED UNAUTHORIZED UNREADABLE"
    assert reasons >= {ApiErrorReason[name] for name in names.split()}


def _simulate(seed: int, trouble: float) -> ReflectorStatus:
    """Simulate half an hour of faults and a calm time, and return the status of the reflector at the end."""
    chance = Random(f"{seed} {trouble}")  # noqa: S311  # a reproducible schedule
    clock = FakeClock()
    cluster = Cluster(clock, chance)
    server = SimulatedTransport(cluster, trouble)
    store = PodStore()
    reflector = Reflector(store.codec, server, _ClusterClock(cluster), chance.random, WatchTimeouts(poll_interval=0.5))
    run = reflector.events()
    deleted: dict[str, int] = {}
    ends = clock.time + _TROUBLE_SECONDS
    while clock.time < ends + _CALM_SECONDS:
        if clock.time > ends:
            server.trouble, server.hangs_until = 0.0, min(server.hangs_until, ends)
        event = next(run)
        if event is not None:
            store.apply(event)
            if isinstance(event, Deleted):
                deleted[event.item.uid] = event.revision
            _check_content(store, cluster, deleted)
        _check_age(reflector.get_status().age, store, cluster)
    now = reflector.get_status()
    assert now.age is not None
    assert now.age < 80
    assert now.stale is None
    return now


class _ClusterClock:
    """A clock with which the cluster changes while the reflector sleeps."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def now(self) -> float:
        """Return the time."""
        return self._cluster.clock.time

    def sleep(self, seconds: float) -> None:
        """Let time pass in the cluster."""
        self._cluster.advance(seconds)


def _check_content(store: PodStore, cluster: Cluster, deleted: dict[str, int]) -> None:
    assert store.revision is not None
    found = {pod.uid: str(pod.revision) for pod in store.list_all("team-a")}
    assert found == cluster.read_state(store.revision)
    deleted_uids = {write.item["metadata"]["uid"] for write in cluster.history if write.kind == "DELETED"}
    assert deleted.keys() <= deleted_uids
    assert all(store.get_deletion_revision(uid) == revision for uid, revision in deleted.items())


def _check_age(age: float | None, store: PodStore, cluster: Cluster) -> None:
    if age is not None:
        assert store.revision is not None
        assert store.revision >= cluster.revision_at(cluster.clock.time - age - 1e-6)
