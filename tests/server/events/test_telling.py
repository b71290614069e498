"""The thread that writes: it holds nobody up, drops what there is no room for, and outlives whatever goes wrong."""

from threading import Event as Signal

from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from tests.server.building import Log
from tests.server.events.asked import OWNER, answer, review
from tests.server.process import eventually
from webhook.admission.request import Phase
from webhook.gate.decisions import Decision
from webhook.server.events.event_correlator import Event
from webhook.server.events.event_recorder import EventError, EventRecorder


class _Writer:
    """Keeps events in a list, once it may; and fails as it is told to."""

    def __init__(self) -> None:
        self.written: list[Event] = []
        self.may = Signal()
        self.failures: list[Exception] = []

    def write(self, event: Event) -> bool:
        self.may.wait(30)
        if self.failures:
            raise self.failures.pop(0)
        self.written.append(event)
        return True


class _Told:
    """The thread, its writer, and what it counts and logs."""

    def __init__(self) -> None:
        self.writer, self.registry, self.log = _Writer(), CollectorRegistry(), Log()
        self.events = EventRecorder(self.writer.write, "one", self.registry, self.log.logger)

    def count(self, result: str) -> float:
        return self.registry.get_sample_value("tallygate_events_total", {"result": result}) or 0.0

    def hears(self, owners: int, namespaces: int = 1) -> None:
        """A refusal of a pod of each of so many owners, in turn in so many namespaces."""
        for each in range(owners):
            found = answer()
            record = replace(found.record, namespace=f"team-{each % namespaces}")
            self.events.record(review(OWNER | {"uid": f"u{each}"}), Decision(found.body, record))


def test_what_was_answered_is_written_by_a_thread_of_its_own_and_the_answer_is_the_same() -> None:
    told = _Told()
    told.writer.may.set()
    told.events.worker.start()
    refused = answer()
    admit = told.events.wrap_admit(lambda _body, _phase, _deadline: refused)
    assert admit(review(OWNER), Phase.VALIDATING, 0.0) is refused
    assert eventually(lambda: [each.message.text for each in told.writer.written] == ["the sentence"])
    assert eventually(lambda: told.count("written") == 1)
    told.events.worker.stop()


def test_while_the_cluster_does_not_answer_nobody_waits_and_the_rest_is_counted() -> None:
    told = _Told()
    told.events.worker.start()
    told.hears(2000, namespaces=100)  # returns at once, though nothing is written
    assert told.writer.written == []
    told.writer.may.set()
    assert eventually(lambda: len(told.writer.written) > 0)
    assert eventually(lambda: sum(map(told.count, ("written", "limited", "full"))) == 2000)
    told.events.worker.stop()


def test_what_nobody_has_room_for_is_dropped() -> None:
    told = _Told()  # never started, so that nothing is taken out
    for _ in range(10):
        told.hears(100, namespaces=100)
    assert told.count("limited") + told.count("full") >= 1000 - 256


def test_a_failure_is_logged_once_until_it_is_over_and_shown_meanwhile() -> None:
    told = _Told()
    told.writer.failures = [EventError("the API server says 403"), RuntimeError("a fault of ours")]
    told.writer.may.set()
    told.events.worker.start()
    told.hears(2)
    assert eventually(lambda: told.count("failed") + told.count("crashed") == 2)
    assert eventually(lambda: told.events.worker.check().detail == {"failure": "RuntimeError: a fault of ours"})
    assert told.events.worker.check().ready
    told.hears(3)
    assert eventually(lambda: len(told.writer.written) == 3)
    assert eventually(lambda: told.events.worker.check().detail == {})
    assert [line["event"] for line in told.log.lines] == ["event-write-failed"]
    told.events.worker.stop()


def test_a_fault_in_what_is_heard_leaves_the_answer_as_it_is() -> None:
    told = _Told()
    broken = Decision(b"no JSON", answer().record)
    admit = told.events.wrap_admit(lambda _body, _phase, _deadline: broken)
    assert admit(review(OWNER), Phase.VALIDATING, 0.0) is broken
    assert told.count("crashed") == 1


def test_one_that_was_never_started_can_be_stopped() -> None:
    _Told().events.worker.stop()
