"""Snapshots of the cluster for scheduling: known while its watches are current; the log reports once if not."""

import json
from collections.abc import Callable, Container, Sequence

import pytest

from tallygate.admission.kinds import REVIEW_TARGETS, DecodedRequest
from tallygate.admission.request import ALLOWED, decode_review
from tallygate.admission.rule_index import RuleSelection
from tallygate.kube.api_errors import ApiErrorReason
from tallygate.kube.informer import InformerStatus
from tallygate.server.controllers.informers import InformerSnapshotProvider
from tallygate.server.serve import SkippedNodeRules
from tests.server.app_harness import Log
from tests.state.informers.device_watches import DeviceWatches
from tests.state.informers.test_scheduler_cache import ClusterStores as Views


def list_events(log: Log) -> list[tuple[str, str]]:
    """Return level and event of each line so far."""
    return [(line["level"], line["event"]) for line in log.lines]


def select(statuses: Sequence[InformerStatus]) -> Callable[[Container[str]], Sequence[InformerStatus]]:
    """Return a function that returns those of these statuses that have the names in question."""
    return lambda names: [status for status in statuses if status.name in names]


def create_status(name: str, age: float, stale: str | None = None) -> InformerStatus:
    """Return the status of the informer of one resource."""
    return InformerStatus(name, 1, 7, age, stale, {}, 1, None)


def test_a_snapshot_is_as_old_as_the_oldest_store_that_is_needed() -> None:
    views, log = Views(), Log("info")
    views.node("ADDED", "n1", "4")
    views.list()
    statuses = [
        create_status("nodes", 3.0),
        create_status("pods", 8.0),
        create_status("namespaces", 90.0),
        create_status("deviceclasses", 99.0),
    ]
    provider = InformerSnapshotProvider(views.scheduler_cache, select(statuses), log.logger)
    for pods, age in ((False, 3.0), (True, 8.0)):
        with provider.open_snapshot(pods=pods) as snapshot:
            assert snapshot is not None
            assert (snapshot.age_seconds, snapshot.has_pods, len(snapshot.cluster.nodes)) == (age, True, 1)
    assert list_events(log) == []


def test_a_stale_store_is_not_used_and_that_is_logged_once() -> None:
    views, log = Views(), Log("info")
    statuses = [create_status("nodes", 3.0), create_status("pods", 200.0, "pods: not known to be current for 200 s")]
    statuses.append(create_status("deviceclasses", 1.0))
    provider = InformerSnapshotProvider(views.scheduler_cache, select(statuses), log.logger)
    for _ in range(2):
        with provider.open_snapshot(pods=True) as snapshot:
            assert snapshot is None
    assert list_events(log) == [("warning", "node-rules-not-evaluated")]
    statuses[1] = create_status("pods", 1.0)
    with provider.open_snapshot(pods=True) as snapshot:
        assert snapshot is not None
        assert not snapshot.has_pods
    assert list_events(log)[1:] == [("info", "node-rules-evaluated")]


@pytest.mark.parametrize(("stale", "known"), [(None, True), ("deviceclasses: not listed yet", False)])
def test_unknown_device_classes_do_not_prevent_a_snapshot(*, stale: str | None, known: bool) -> None:
    log = Log("info")
    statuses = [create_status("nodes", 3.0), create_status("deviceclasses", 1.0, stale)]
    provider = InformerSnapshotProvider(Views().scheduler_cache, select(statuses), log.logger)
    with provider.open_snapshot(pods=False) as snapshot:
        assert snapshot is not None
        assert snapshot.has_devices is known
    assert list_events(log) == ([] if known else [("warning", "device-classes-not-evaluated")])


@pytest.mark.parametrize(
    ("reason", "known", "events"),
    [
        (None, True, []),
        (ApiErrorReason.UNREACHABLE, False, [("warning", "node-pools-not-read")]),
        (ApiErrorReason.FORBIDDEN, True, [("warning", "node-pools-not-read")]),
    ],
)
def test_pools_that_this_gate_may_not_read_count_as_known(
    *, reason: ApiErrorReason | None, known: bool, events: list[tuple[str, str]]
) -> None:
    log, stale = Log("info"), reason and "nodepools: not listed yet"
    pools = InformerStatus("nodepools", 0, None, None, stale, {reason: 3} if reason else {}, 0, None)
    statuses = [create_status(name, 1.0) for name in ("nodes", "deviceclasses", "nodeclaims")]
    provider = InformerSnapshotProvider(Views().scheduler_cache, select([*statuses, pools]), log.logger)
    with provider.open_snapshot(pods=False) as snapshot:
        assert snapshot is not None
        assert snapshot.has_pools is known
    assert list_events(log) == events


def test_a_second_caller_gets_no_snapshot_instead_of_a_long_wait() -> None:
    views, log = Views(), Log("info")
    provider = InformerSnapshotProvider(views.scheduler_cache, select([create_status("nodes", 1.0)]), log.logger)
    with provider.open_snapshot(pods=False) as first, provider.open_snapshot(pods=False) as second:
        assert first is not None
        assert second is None


def test_without_a_cluster_every_request_is_allowed_and_that_is_logged_once() -> None:
    log = Log("info")
    request = {"uid": "r", "operation": "CREATE", "kind": {"group": "", "kind": "Pod"}, "object": {}}
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    decoded = DecodedRequest(decode_review(json.dumps(review).encode()), REVIEW_TARGETS)
    evaluate = SkippedNodeRules(log.logger)
    assert [evaluate(decoded, RuleSelection((), ())) for _ in range(2)] == [ALLOWED, ALLOWED]
    assert list_events(log) == [("warning", "node-rules-not-evaluated")]


@pytest.mark.parametrize(("git_version", "is_known"), [("v1.37.2", False), ("v1.36.3", True)])
def test_stale_taint_rules_leave_devices_unknown_where_the_scheduler_reads_them(
    git_version: str, *, is_known: bool
) -> None:
    views, log = DeviceWatches(git_version), Log("info")
    views.device_cache.build()
    resources = ("nodes", "pods", "deviceclasses", "resourceslices", "resourceclaims", "resourceclaimtemplates")
    statuses = [create_status(name, 1.0) for name in resources]
    statuses.append(create_status("devicetaintrules", 300.0, "devicetaintrules: forbidden"))
    provider = InformerSnapshotProvider(views.scheduler_cache, select(statuses), log.logger, views.device_cache)
    provider.request_devices()
    with provider.open_snapshot(pods=True) as snapshot:
        assert snapshot is not None
        assert (snapshot.cluster.devices is not None) is is_known
    warnings = [line["message"] for line in log.lines if line["event"] == "pods-with-devices-not-evaluated"]
    assert ["devicetaintrules: forbidden" in each for each in warnings] == ([] if is_known else [True])
