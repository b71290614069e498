"""The cluster that pods are placed in, beside the server: known while it is followed, and said to be unknown once."""

import io
import json
from typing import Any

import pytest

from tests.state.informers.test_scheduler_cache import Followed as Views
from webhook.admission.request import ALLOWED, decode_review
from webhook.admission.rule_index import RuleSelection
from webhook.kube.informer import InformerStatus
from webhook.server.controllers.informers import InformerSnapshotProvider
from webhook.server.serve import SkippedNodeRules
from webhook.server.telemetry.json_log import LineWriter, Logger, create_logger


class Log:
    """What is logged."""

    def __init__(self) -> None:
        self._written = io.BytesIO()
        self._lines = LineWriter(self._written)
        self.logger: Logger = create_logger("info", line_writer=self._lines)

    def events(self) -> list[tuple[str, str]]:
        """Level and event of each line so far."""
        self._lines.flush()
        lines: list[dict[str, Any]] = [json.loads(line) for line in self._written.getvalue().splitlines()]
        return [(line["level"], line["event"]) for line in lines]


def followed(name: str, age: float, stale: str | None = None) -> InformerStatus:
    """How following one resource goes."""
    return InformerStatus(name, 1, 7, age, stale, {}, 1, None)


def test_it_is_as_old_as_the_older_of_what_is_needed() -> None:
    views, log = Views(), Log()
    views.node("ADDED", "n1", "4")
    views.list()
    goes = [
        followed("nodes", 3.0),
        followed("pods", 8.0),
        followed("namespaces", 90.0),
        followed("deviceclasses", 99.0),
    ]
    placing = InformerSnapshotProvider(views.view, lambda: goes, log.logger)
    for pods, age in ((False, 3.0), (True, 8.0)):
        with placing.open_snapshot(pods=pods) as seen:
            assert seen is not None
            assert (seen.age_seconds, seen.has_pods, len(seen.cluster.nodes)) == (age, True, 1)
    assert log.events() == []


def test_what_is_old_is_not_gone_by_and_the_log_says_so_once() -> None:
    views, log = Views(), Log()
    goes = [followed("nodes", 3.0), followed("pods", 200.0, "pods: not known to be current for 200 s")]
    goes.append(followed("deviceclasses", 1.0))
    placing = InformerSnapshotProvider(views.view, lambda: goes, log.logger)
    for _ in range(2):
        with placing.open_snapshot(pods=True) as seen:
            assert seen is None
    assert log.events() == [("warning", "placing-not-evaluated")]
    goes[1] = followed("pods", 1.0)
    with placing.open_snapshot(pods=True) as seen:
        assert seen is not None
        assert not seen.has_pods
    assert log.events()[1:] == [("info", "placing-evaluated")]


@pytest.mark.parametrize(("stale", "known"), [(None, True), ("deviceclasses: not listed yet", False)])
def test_device_classes_that_are_not_known_hold_nothing_up(*, stale: str | None, known: bool) -> None:
    log = Log()
    goes = [followed("nodes", 3.0), followed("deviceclasses", 1.0, stale)]
    placing = InformerSnapshotProvider(Views().view, lambda: goes, log.logger)
    with placing.open_snapshot(pods=False) as seen:
        assert seen is not None
        assert seen.has_devices is known
    assert log.events() == ([] if known else [("warning", "device-classes-not-evaluated")])


def test_nobody_waits_long_behind_others() -> None:
    views, log = Views(), Log()
    placing = InformerSnapshotProvider(views.view, lambda: [followed("nodes", 1.0)], log.logger)
    with placing.open_snapshot(pods=False) as first, placing.open_snapshot(pods=False) as second:
        assert first is not None
        assert second is None


def test_without_a_cluster_every_request_is_allowed_and_the_log_says_so_once() -> None:
    log = Log()
    request = {"uid": "r", "operation": "CREATE", "kind": {"group": "", "kind": "Pod"}, "object": {}}
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    decoded = decode_review(json.dumps(review).encode())
    evaluate = SkippedNodeRules(log.logger)
    assert [evaluate(decoded, RuleSelection((), ())) for _ in range(2)] == [ALLOWED, ALLOWED]
    assert log.events() == [("warning", "placing-not-evaluated")]
