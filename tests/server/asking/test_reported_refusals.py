"""What a namespace reports about pods that are not stored: live reads, bounded, kept for a while."""

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tallygate.cluster.refusal_events import read_refusals
from tallygate.kube.config import load_kubeconfig
from tallygate.review.cap_messages import hide_top_namespaces
from tallygate.server.asking import reported_refusals
from tallygate.server.asking.reported_refusals import RefusalReader
from tests.kube.kubeconfig import write_kubeconfig
from tests.kube.scripted_server import FakeClock
from tests.server.small_cluster import Object, SmallCluster, run_small_cluster

NOW = datetime(2026, 1, 1, 10, tzinfo=UTC)
APPS = "/apis/apps/v1/namespaces/team-a"
EVENTS = "/api/v1/namespaces/team-a/events"
LISTS = (
    *(f"{APPS}/replicasets", f"{APPS}/statefulsets", f"{APPS}/daemonsets", EVENTS),
    *("/api/v1/namespaces/team-a/replicationcontrollers", "/apis/batch/v1/namespaces/team-a/jobs"),
)
DENIED = "cap gpus of namespace team-a exceeded: requested 4 nvidia.com/gpu, free 1. Request at most 1"


def create_event(name: str, at: datetime, times: int = 1, **fields: Any) -> Object:
    """Return an Event of the gate about the owner of denied pods."""
    return {
        "kind": "Event",
        "metadata": {"name": f"{name}.1", "namespace": "team-a"},
        "involvedObject": {"kind": "Job", "name": name, "namespace": "team-a"},
        "reason": "Rejected",
        "message": DENIED,
        "count": times,
        "lastTimestamp": f"{at:%Y-%m-%dT%H:%M:%SZ}",
        "reportingComponent": "tallygate",
        **fields,
    }


def create_replica_set() -> Object:
    """Return a ReplicaSet of a Deployment that lacks two pods."""
    owner = {"kind": "Deployment", "name": "web", "uid": "u", "controller": True}
    failure = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": DENIED}
    return {
        "metadata": {"name": "web-1", "namespace": "team-a", "ownerReferences": [owner]},
        "spec": {"replicas": 3},
        "status": {"replicas": 1, "conditions": [failure]},
    }


def encode(*events: Object) -> list[msgspec.Raw]:
    return [msgspec.Raw(json.dumps(event).encode()) for event in events]


def test_refusals_of_one_owner_by_several_replicas_are_one() -> None:
    older = create_event("train", NOW - timedelta(minutes=9), 3, message="an older one")
    events = encode(create_event("train", NOW, 2), older, create_event("eval", NOW - timedelta(minutes=1)))
    found = [(each.name, each.times, each.message) for each in read_refusals(events, NOW)]
    assert found == [("train", 5, DENIED), ("eval", 1, DENIED)]


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(create_event("train", NOW - timedelta(minutes=61)), id="older than an hour"),
        pytest.param(create_event("train", NOW, reason="Warned"), id="another reason"),
        pytest.param(create_event("train", NOW, reportingComponent="other"), id="another reporter"),
        pytest.param(create_event("train", NOW, lastTimestamp="yesterday"), id="no time"),
        pytest.param(create_event("train", NOW, involvedObject=[]), id="no object"),
        pytest.param(create_event("train", NOW, count="many"), id="no number"),
    ],
)
def test_other_events_are_no_refusals(event: Object) -> None:
    assert read_refusals(encode(event), NOW) == []


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("free 1; top consumers: namespace b.c (3), namespace d (1, terminating). Request 1", "free 1. Request 1"),
        ("free 1; top consumers: Job run (3). Request 1", "free 1; top consumers: Job run (3). Request 1"),
        ("free 1. Request 1", "free 1. Request 1"),
    ],
)
def test_namespaces_that_are_top_consumers_are_hidden(text: str, hidden: str) -> None:
    assert hide_top_namespaces(text) == hidden


@pytest.fixture
def cluster() -> Iterator[SmallCluster]:
    """Yield a cluster with a Deployment that lacks pods, and an Event of the gate."""
    with run_small_cluster() as small:
        small.objects |= {path: [] for path in LISTS}
        small.objects[f"{APPS}/replicasets"] = [create_replica_set()]
        small.objects[EVENTS] = [create_event("train", datetime.fromtimestamp(time.time(), UTC))]
        yield small


def create_reader(cluster: SmallCluster, folder: Path, clock: FakeClock) -> RefusalReader:
    return RefusalReader(load_kubeconfig(write_kubeconfig(folder, cluster.server)), clock.now)


def test_a_namespace_is_read_once_in_ten_seconds(cluster: SmallCluster, tmp_path: Path) -> None:
    clock = FakeClock()
    reader = create_reader(cluster, tmp_path, clock)
    first = reader.read("team-a")
    assert first.rejected is not None
    assert first.refusals is not None
    assert [(pods.kind, pods.name, pods.number, pods.message) for pods in first.rejected] == [
        ("Deployment", "web", 2, DENIED)
    ]
    assert [(refusal.name, refusal.times) for refusal in first.refusals] == [("train", 1)]
    assert first.unknown == ()
    cluster.objects[EVENTS].clear()
    clock.sleep(9)
    assert reader.read("team-a") == first
    clock.sleep(2)
    assert reader.read("team-a").refusals == ()


def test_what_may_not_be_listed_is_not_known(cluster: SmallCluster, tmp_path: Path) -> None:
    cluster.error_statuses = {EVENTS: 403, f"{APPS}/statefulsets": 500}
    reported = create_reader(cluster, tmp_path, FakeClock()).read("team-a")
    assert (len(reported.rejected or ()), reported.refusals) == (1, None)
    assert reported.unknown == (
        "statefulsets cannot be listed at present",
        "events may not be listed by this server",
    )


def test_nothing_is_known_if_nothing_may_be_listed(cluster: SmallCluster, tmp_path: Path) -> None:
    cluster.error_statuses = dict.fromkeys(LISTS, 403)
    reported = create_reader(cluster, tmp_path, FakeClock()).read("team-a")
    assert (reported.rejected, reported.refusals, len(reported.unknown)) == (None, None, len(LISTS))


def test_many_namespaces_at_once_are_not_all_read(cluster: SmallCluster, tmp_path: Path) -> None:
    reader = create_reader(cluster, tmp_path, FakeClock())
    reports = [reader.read(f"ns-{number}") for number in range(25)]
    assert [report.unknown[0].startswith("pods that are not stored") for report in reports[20:]] == [True] * 5
    assert reports[0].refusals == ()


def test_more_objects_than_are_read_are_not_known(
    cluster: SmallCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reported_refusals, "MAX_OBJECTS", 1)
    reported = create_reader(cluster, tmp_path, FakeClock()).read("team-a")
    assert "replicasets are too many to be read" in reported.unknown
