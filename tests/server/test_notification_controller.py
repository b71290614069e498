"""The controller of messages: who reports what, and what is sent again or not after a change of leader."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tallygate.gate.notifications import Condition, NotificationEvent, ObservedConditions, Subscription
from tallygate.kube.api_errors import ApiError, ApiErrorReason
from tallygate.server.controllers.notification_controller import NotificationController, NotificationSource
from tallygate.server.interfaces import SERVING, ReadinessStatus
from tallygate.server.lifecycle import ServeError
from tallygate.server.serve import serve
from tallygate.server.settings.table import Settings
from tallygate.state.kubernetes.notification_record_store import NotificationRecords
from tests.server.app_harness import Log

SOFT, DEGRADED = NotificationEvent.SOFT_LIMIT_CROSSED, NotificationEvent.GATE_DEGRADED
START = datetime(2026, 11, 29, 9, tzinfo=UTC)
FIELDS = {"cap": "gpus", "namespace": "team-a", "resource": "gpu", "used": "7", "limit": "6"}


class MemoryRecords:
    """Records in memory; reads and writes fail while `is_down`, and the next write conflicts if `conflicts`."""

    def __init__(self) -> None:
        self.caps = b""
        self.replicas: dict[str, bytes] = {}
        self.is_down = self.conflicts = False
        self.writes = 0

    def read(self) -> NotificationRecords:
        """Return the records."""
        self._check()
        return NotificationRecords(self.caps, dict(self.replicas))

    def write(self, replica: str, own: bytes, caps: bytes | None) -> bool:
        """Store records."""
        self._check()
        self.writes += 1
        if self.conflicts:
            self.conflicts = False
            return False
        self.replicas[replica] = own
        self.caps = self.caps if caps is None else caps
        return True

    def close(self) -> None:
        """Do nothing."""

    def _check(self) -> None:
        if self.is_down:
            raise ApiError(ApiErrorReason.UNREACHABLE, "the API server cannot be reached")


class Replica:
    """A replica with its controller; a test moves its time, its leadership, its conditions and its checks."""

    def __init__(self, records: MemoryRecords, name: str = "gate-1", *, leads: bool = True) -> None:
        self.now, self.leads, self.log = START, leads, Log()
        self.conditions: dict[str, Condition] | None = {}
        self.checks: dict[str, Mapping[str, Any]] = {}
        self.records = records
        source = NotificationSource(
            replica=name,
            list_cap_conditions=lambda _: None if self.conditions is None else ObservedConditions(self.conditions),
            list_statuses=lambda: [ReadinessStatus(each, not detail, detail) for each, detail in self.checks.items()],
            is_leader=lambda: self.leads,
            now=lambda: self.now,
            monotonic=lambda: self.now.timestamp(),  # noqa: PLW0108  # it moves
        )
        subscriptions = [Subscription("ops", {SOFT: 0.0, DEGRADED: 300.0})]
        self.controller = NotificationController(subscriptions, source, records, self.log.logger)

    def run(self, seconds: float = 5.0) -> list[str]:
        """Let time pass, run once, and return the messages that are sent; then the record is written as at a wake."""
        self.now += timedelta(seconds=seconds)
        self.controller.run()
        return self.send()

    def send(self) -> list[str]:
        """Take what is due, as a sender does."""
        texts = []
        while (found := self.controller.find_due("ops")) is not None:
            self.controller.record_sent("ops", found)
            texts.append(found.fields["message"])
        if texts and not self.records.is_down:
            self.controller.run()
        return texts


def _cross(*names: str) -> dict[str, Condition]:
    return {name: Condition(event=SOFT, fields=FIELDS) for name in names}


TEXT = "Cap gpus in team-a: 7 gpu are used, above the soft limit 6."


def test_the_leader_alone_reports_caps_and_the_next_one_repeats_nothing() -> None:
    records = MemoryRecords()
    first, second = Replica(records), Replica(records, "gate-2", leads=False)
    first.conditions = second.conditions = _cross("a")
    assert (first.run(), second.run()) == ([TEXT], [])
    first.leads, second.leads = False, True
    assert (first.run(), second.run()) == ([], [])
    second.conditions = _cross("a", "b")
    assert (first.run(), second.run()) == ([], [TEXT])


def test_a_leader_that_cannot_read_what_was_sent_sends_nothing_about_caps() -> None:
    records = MemoryRecords()
    first = Replica(records)
    first.conditions = _cross("a")
    assert first.run() == [TEXT]
    second = Replica(records, "gate-2")
    second.conditions = _cross("a", "b")
    records.is_down = True
    with pytest.raises(ApiError):
        second.run()
    assert second.send() == []
    records.is_down = False
    assert second.run() == [TEXT]


def test_a_record_that_cannot_be_written_repeats_nothing_here_and_loses_nothing_elsewhere() -> None:
    records = MemoryRecords()
    first = Replica(records)
    assert first.run() == []
    first.conditions = _cross("a")
    first.now += timedelta(seconds=5)
    records.is_down = True
    first.controller._observe_caps(first.now)  # noqa: SLF001  # the run before the failure
    assert first.send() == [TEXT]
    for _ in range(3):
        with pytest.raises(ApiError):
            first.run()
        assert first.send() == []
    records.is_down = False
    second = Replica(records, "gate-2")
    second.conditions = _cross("a")
    assert second.run() == [TEXT]  # at least once
    assert first.run() == []


def test_after_a_conflict_the_record_is_written_again() -> None:
    records = MemoryRecords()
    replica = Replica(records)
    assert replica.run() == []
    replica.conditions, records.conflicts = _cross("a"), True
    assert replica.run() == [TEXT]
    assert (records.writes, records.caps) == (1, b"")
    assert replica.run() == []
    assert records.caps != b""


def test_conditions_alone_are_recorded_once_a_minute_and_no_change_never() -> None:
    records = MemoryRecords()
    replica = Replica(records)
    assert replica.run() == []
    assert records.writes == 0
    full = {"f": Condition(event=NotificationEvent.CAP_FULL, fields=FIELDS)}
    for number in range(24):  # it begins and ends all the time
        replica.conditions = full if number % 2 else {}
        replica.run()
    assert 1 <= records.writes <= 2
    replica.conditions = full
    for _ in range(13):
        replica.run()
    before = records.writes
    for _ in range(30):
        replica.run()
    assert records.writes == before


def test_while_namespaces_are_not_known_nothing_ends() -> None:
    replica = Replica(MemoryRecords())
    replica.conditions = _cross("a")
    assert replica.run() == [TEXT]
    replica.conditions = None
    assert replica.run() == []
    replica.conditions = _cross("a")
    assert replica.run() == []


def test_each_replica_reports_itself_and_its_recovery() -> None:
    records = MemoryRecords()
    first, second = Replica(records), Replica(records, "gate-2", leads=False)
    first.checks = second.checks = {"watches": {"failure": "stale"}, "notifications": {"failure": "x"}}
    for replica in (first, second):
        assert replica.run() == []
    first_text, second_text = first.run(300), second.run(300)
    assert first_text == ["Gate gate-1 has been degraded since 2026-11-29T09:00:05Z: watches: stale"]
    assert second_text == ["Gate gate-2 has been degraded since 2026-11-29T09:00:05Z: watches: stale"]
    again = Replica(records, "gate-2", leads=False)
    again.now, again.checks = second.now, second.checks
    assert again.run(600) == []
    again.checks = {"watches": {}}
    assert again.run(600) == []
    assert again.run(300) == ["Gate gate-2 works again."]
    assert again.run(300) == []


def test_a_gate_that_drains_is_not_degraded() -> None:
    replica = Replica(MemoryRecords())
    replica.checks = {SERVING: {"state": "draining"}}
    assert (replica.run(), replica.run(300)) == ([], [])


def test_a_degraded_gate_is_reported_while_the_api_server_is_away() -> None:
    records = MemoryRecords()
    records.is_down = True
    replica = Replica(records)
    replica.checks = {"ledgers": {"failure": "refused"}}
    for _ in range(2):
        with pytest.raises(ApiError):
            replica.run(300)
    assert replica.send() == ["Gate gate-1 has been degraded since 2026-11-29T09:05Z: ledgers: refused"]
    with pytest.raises(ApiError):
        replica.run()
    assert replica.send() == []


_OUT_OF_RANGE = (
    '{"conditions":{"a":[-99999999999999]}}',
    '{"conditions":{"a":[99999999999999]}}',
    '{"conditions":{"a":[0,-1]}}',
    '{"conditions":{"a":[0,99999999999999]}}',
    f'{{"conditions":{{"a":[0,0,{"9" * 400}]}}}}',
    f'{{"sent":{{"ops":[{"9" * 400}]}}}}',
)


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"[]",
        b'{"conditions":{"a":1}}',
        b'{"sent":{"ops":["x"]}}',
        b"\xff",
        *(text.encode() for text in _OUT_OF_RANGE),
    ],
)
def test_a_record_that_cannot_be_read_is_replaced(content: bytes) -> None:
    records = MemoryRecords()
    records.caps = records.replicas["gate-1"] = content
    replica = Replica(records)
    replica.conditions = _cross("a")
    assert replica.run() == [TEXT]
    assert b"receivers" in records.caps


def test_conditions_beyond_the_bound_are_logged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tallygate.gate.notifications.MAX_CONDITIONS", 2)
    replica = Replica(MemoryRecords())
    replica.conditions = _cross("a", "b", "c")
    for _ in range(3):
        replica.run()
    found = [(line["event"], line["number"]) for line in replica.log.lines]
    assert found == [("notifications-left-out", 1)]
    assert replica.controller.check().detail["leftOut"] == 1


def test_what_was_sent_last_is_recorded_at_the_end() -> None:
    records = MemoryRecords()
    replica = Replica(records)
    replica.controller.start()
    try:
        replica.controller.run()
        replica.conditions = _cross("a")
        replica.controller.run()
        found = replica.controller.find_due("ops")
        assert found is not None
        replica.controller.record_sent("ops", found)
    finally:
        replica.controller.stop()
    assert records.caps != b""


def test_receivers_need_a_cluster(tmp_path: Path) -> None:
    settings = Settings(notify_file=tmp_path / "notify.yaml")
    with pytest.raises(ServeError, match="messages can be sent only where there is a cluster: name it by --cluster"):
        serve(settings)
