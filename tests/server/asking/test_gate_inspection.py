"""When the gate is inspected: in a thread of its own, for those who open the page, at most once in two minutes."""

from datetime import UTC, datetime, timedelta

from tallygate.errors import TallygateError
from tallygate.server.asking.gate_inspection import KEPT, GateInspector, Inspection
from tests.server.app_harness import Log

START = datetime(2026, 1, 1, tzinfo=UTC)


class Inspections:
    """An inspector whose inspections a test counts; `failure` is what the next ones raise."""

    def __init__(self) -> None:
        self.now = START
        self.made = 0
        self.failure = ""
        self.log = Log()
        self.inspector = GateInspector(self._inspect, self.log.logger, lambda: self.now)

    def _inspect(self) -> Inspection:
        self.made += 1
        if self.failure:
            raise TallygateError(self.failure)
        return Inspection(self.now, (), ())

    def run(self) -> None:
        """Run what the worker would run now."""
        self.inspector.worker.run_once()


def test_nothing_is_inspected_before_the_page_is_opened() -> None:
    inspections = Inspections()
    inspections.run()
    assert inspections.made == 0
    assert inspections.inspector.get() is None
    inspections.run()
    assert inspections.inspector.get() == Inspection(START, (), ())


def test_an_old_inspection_is_shown_while_another_one_is_made() -> None:
    inspections = Inspections()
    for age, made in ((timedelta(), 1), (KEPT - timedelta(seconds=1), 1), (KEPT, 2)):
        inspections.now = START + age
        before = inspections.inspector.get()
        inspections.run()
        inspections.run()
        assert inspections.made == made
        assert before is None or before.ended_at == START


def test_a_failure_keeps_the_last_inspection_and_is_repeated() -> None:
    inspections = Inspections()
    inspections.inspector.get()
    inspections.run()
    inspections.now, inspections.failure = START + KEPT, "the API server does not answer"
    assert inspections.inspector.get() is not None
    inspections.run()
    shown = inspections.inspector.worker.check()
    assert (shown.ready, shown.detail["failure"]) == (True, inspections.failure)
    assert [line["event"] for line in inspections.log.lines] == ["gate-inspection-failed"]
    inspections.failure = ""
    inspections.run()
    latest = inspections.inspector.get()
    assert latest is not None
    assert latest.ended_at == START + KEPT
