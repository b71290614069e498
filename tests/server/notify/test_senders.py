"""Several receivers at a time, each with its sender: one that hangs delays no other, nor the end of the gate."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from threading import Event

from tallygate.gate.notifications import Condition, NotificationEvent, ObservedConditions
from tallygate.server.controllers.notification_controller import NotificationController, NotificationSource
from tallygate.server.notify.notify_config import NotifyConfig, Receiver, SoftLimitEvent, WantedEvents
from tallygate.server.notify.receiver_sender import create_senders
from tallygate.server.telemetry.metrics import ServerMetrics, Telemetry
from tests.kube.raw_server import raw_server
from tests.server.app_harness import Log
from tests.server.notify.local_receiver import run_receiver
from tests.server.test_notification_controller import MemoryRecords

FIELDS = {"cap": "gpus", "namespace": "team-a", "resource": "gpu", "used": "7", "limit": "6"}


def _until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < deadline
        Event().wait(0.02)


def _create_receiver(folder: Path, name: str, url: str) -> Receiver:
    path = folder / name
    path.write_text(url)
    return Receiver(name=name, url_file=str(path), events=WantedEvents(soft_limit_crossed=SoftLimitEvent()))


def _create_controller(receivers: list[Receiver], log: Log, records: MemoryRecords) -> NotificationController:
    """Return the controller of a leader, of which one soft limit is crossed."""
    condition = Condition(event=NotificationEvent.SOFT_LIMIT_CROSSED, fields=FIELDS)
    source = NotificationSource(
        replica="gate-1",
        list_cap_conditions=lambda _: ObservedConditions({"a": condition}),
        list_statuses=list,
        is_leader=lambda: True,
        now=lambda: datetime.now(UTC),
        monotonic=time.monotonic,
    )
    controller = NotificationController(
        [receiver.create_subscription() for receiver in receivers], source, records, log.logger
    )
    config = NotifyConfig(api_version="tallygate.dev/v1alpha1", kind="NotifyConfig", receivers=tuple(receivers))
    controller.add_senders(create_senders(config, controller, Telemetry(log.logger, ServerMetrics("1"))))
    return controller


def test_a_receiver_that_hangs_delays_neither_another_one_nor_the_end(tmp_path: Path) -> None:
    log, records = Log(), MemoryRecords()
    with run_receiver() as receiver, raw_server([lambda connection: server.stall(connection)]) as server:  # noqa: PLW0108
        receivers = [
            _create_receiver(tmp_path, "hangs", f"http://localhost:{server.port}/"),
            _create_receiver(tmp_path, "works", receiver.url),
        ]
        controller = _create_controller(receivers, log, records)
        controller.start()
        controller.run()
        _until(lambda: bool(server.requests) and bool(receiver.messages))
        started_at = time.monotonic()
        assert controller.find_due("hangs") is not None  # it is due until it is taken
        assert time.monotonic() - started_at < 1
        controller.stop()
        assert time.monotonic() - started_at < 5
    assert len(receiver.messages) == 1
    assert b'"works"' in records.caps


def test_the_check_names_the_receivers_that_fail_and_is_ready(tmp_path: Path) -> None:
    log = Log()
    with run_receiver() as receiver:
        receiver.status = 503
        controller = _create_controller([_create_receiver(tmp_path, "ops", receiver.url)], log, MemoryRecords())
        controller.start()
        controller.run()
        _until(lambda: "failing" in controller.check().detail)
        status = controller.check()
        controller.stop()
    assert (status.name, status.ready) == ("notifications", True)
    assert status.detail == {"receivers": 1, "failing": {"ops": "it answers 503"}}
    assert len(receiver.refused) == 1
    assert [(line["event"], line["receiver"]) for line in log.lines] == [("notification-failed", "ops")]
