"""The recorder of events: it delays no request, drops events when its queue is full, and survives every failure."""

import json
from threading import Event as Signal

import pytest
from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from tallygate.admission.kinds import REVIEW_TARGETS
from tallygate.admission.request import Phase
from tallygate.gate.decisions import Decision
from tallygate.kube.api_errors import ApiError, ApiErrorReason
from tallygate.server.events.event_message import Owner
from tallygate.server.events.event_recorder import Event, EventError, EventRecorder, OwnerVerifier
from tests.server.app_harness import Log
from tests.server.events.reviews import OWNER, create_decision, create_review
from tests.server.process import eventually


class _Writer:
    """A writer that appends events to a list once it may, or raises the given failures."""

    def __init__(self) -> None:
        self.written: list[Event] = []
        self.may_write = Signal()
        self.failures: list[Exception] = []

    def write(self, event: Event) -> bool:
        self.may_write.wait(30)
        if self.failures:
            raise self.failures.pop(0)
        self.written.append(event)
        return True


class _Harness:
    """A recorder, its writer, its metrics and its log."""

    def __init__(self) -> None:
        self.writer, self.registry, self.log = _Writer(), CollectorRegistry(), Log()
        self.missing_owners: set[str] = set()
        self.events = EventRecorder(self.writer.write, self._is_stored, "one", self.registry, self.log.logger)

    def _is_stored(self, _namespace: str, owner: Owner) -> bool:
        return owner.uid not in self.missing_owners

    def count(self, result: str) -> float:
        return self.registry.get_sample_value("tallygate_events_total", {"result": result}) or 0.0

    def record_denials(self, owners: int, namespaces: int = 1) -> None:
        """Record a denial of a pod of each owner; the owners are in turn in each of the namespaces."""
        for each in range(owners):
            decision = create_decision()
            record = replace(decision.record, namespace=f"team-{each % namespaces}")
            self.events.record(create_review(OWNER | {"uid": f"u{each}"}), Decision(decision.body, record))


def test_an_event_is_written_by_another_thread_and_the_answer_is_unchanged() -> None:
    harness = _Harness()
    harness.writer.may_write.set()
    harness.events.worker.start()
    denial = create_decision()
    admit = harness.events.wrap_admit(lambda _body, _phase, _deadline: denial)
    assert admit(create_review(OWNER), Phase.VALIDATING, 0.0) is denial
    assert eventually(lambda: [each.message.text for each in harness.writer.written] == ["the sentence"])
    assert eventually(lambda: harness.count("written") == 1)
    harness.events.worker.stop()


def test_no_event_is_written_for_an_owner_that_does_not_exist() -> None:
    harness = _Harness()
    harness.missing_owners, harness.writer.may_write = {"u0", "u2"}, Signal()
    harness.writer.may_write.set()
    harness.events.worker.start()
    harness.record_denials(4)
    assert eventually(lambda: sum(map(harness.count, ("written", "unverified"))) == 4)
    harness.events.worker.stop()
    assert [each.message.owner.uid for each in harness.writer.written] == ["u1", "u3"]


class _Reader:
    """A reader of live objects, by resource, namespace and name; an error stands for a kind that may not be read."""

    def __init__(self, **objects: dict[str, object] | None) -> None:
        self.objects = objects
        self.reads: list[tuple[tuple[str, str, str], str, str]] = []

    def read_workload(self, resource: tuple[str, str, str], namespace: str, name: str) -> bytes | None:
        self.reads.append((resource, namespace, name))
        if name not in self.objects:
            raise ApiError(ApiErrorReason.REFUSED, "HTTP 403")
        stored = self.objects[name]
        return None if stored is None else json.dumps(stored).encode()


@pytest.mark.parametrize(
    ("name", "uid", "kind", "expected"),
    [
        pytest.param("web", "u1", "apps/v1/ReplicaSet", True, id="it exists"),
        pytest.param("web", "u2", "apps/v1/ReplicaSet", False, id="another object has the name"),
        pytest.param("former", "u1", "apps/v1/ReplicaSet", False, id="no object has the name"),
        pytest.param("secret", "u1", "apps/v1/ReplicaSet", False, id="it may not be read"),
        pytest.param("web", "u1", "example.com/v1/Widget", False, id="its kind is unknown"),
    ],
)
def test_an_owner_is_stored_if_an_object_has_its_name_and_its_uid(
    name: str,
    uid: str,
    kind: str,
    expected: bool,  # noqa: FBT001
) -> None:
    reader = _Reader(web={"metadata": {"name": "web", "uid": "u1"}}, former=None)
    verifier = OwnerVerifier(reader, lambda: REVIEW_TARGETS, lambda: 0.0)
    api_version, _, kind_name = kind.rpartition("/")
    assert verifier.is_stored("team-a", Owner(api_version, kind_name, name, uid)) is expected
    is_known = api_version == "apps/v1"
    assert reader.reads == ([(("apps", "v1", "replicasets"), "team-a", name)] if is_known else [])


def test_while_the_cluster_does_not_answer_no_request_waits_and_dropped_events_are_counted() -> None:
    harness = _Harness()
    harness.events.worker.start()
    harness.record_denials(2000, namespaces=100)  # returns at once, though nothing is written
    assert harness.writer.written == []
    harness.writer.may_write.set()
    assert eventually(lambda: len(harness.writer.written) > 0)
    assert eventually(lambda: sum(map(harness.count, ("written", "limited", "full"))) == 2000)
    harness.events.worker.stop()


def test_an_event_beyond_the_queue_is_dropped() -> None:
    harness = _Harness()  # never started, so that its queue is not emptied
    for _ in range(10):
        harness.record_denials(100, namespaces=100)
    assert harness.count("limited") + harness.count("full") >= 1000 - 256


def test_a_failure_is_logged_once_and_shown_until_it_ends() -> None:
    harness = _Harness()
    harness.writer.failures = [EventError("the API server says 403"), RuntimeError("a fault of ours")]
    harness.writer.may_write.set()
    harness.events.worker.start()
    harness.record_denials(2)
    assert eventually(lambda: harness.count("failed") + harness.count("crashed") == 2)
    assert eventually(lambda: harness.events.worker.check().detail == {"failure": "RuntimeError: a fault of ours"})
    assert harness.events.worker.check().ready
    harness.record_denials(3)
    assert eventually(lambda: len(harness.writer.written) == 3)
    assert eventually(lambda: harness.events.worker.check().detail == {})
    assert [line["event"] for line in harness.log.lines] == ["event-write-failed"]
    harness.events.worker.stop()


def test_an_invalid_answer_is_returned_unchanged() -> None:
    harness = _Harness()
    broken = Decision(b"no JSON", create_decision().record)
    admit = harness.events.wrap_admit(lambda _body, _phase, _deadline: broken)
    assert admit(create_review(OWNER), Phase.VALIDATING, 0.0) is broken
    assert harness.count("crashed") == 1


def test_a_recorder_that_never_started_can_be_stopped() -> None:
    _Harness().events.worker.stop()
