"""Drift by pods that bypassed the gate: counted by cap, and logged with the namespace."""

from prometheus_client import CollectorRegistry

from tallygate.accounting.amounts import Amounts
from tallygate.server.telemetry.ledger_metrics import DriftMetrics
from tallygate.state.ledger.ledger import Ledger
from tallygate.state.ports import LedgerKey, LedgerWrite, WriteResult
from tests.server.app_harness import Log
from tests.state.ledger.ledger_builders import GPU, empty_ledger, gpus

KEY = LedgerKey("gpus-0123456789", "team-a")


class Harness:
    """Metrics of drift, and their log."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.log = Log()
        self._drifts = DriftMetrics(self.registry, self.log.logger)

    def record_write(self, before: Ledger | None, after: Ledger, result: WriteResult = WriteResult.STORED) -> None:
        """Record a write."""
        self._drifts.record_write(LedgerWrite(KEY, before, after, 1, 0.0, result))

    def get_count(self) -> float | None:
        """Return the number of drifts."""
        return self.registry.get_sample_value("tallygate_ledger_drift_total", {"cap": "gpus"})


def test_drift_is_counted_and_logged() -> None:
    harness = Harness()
    harness.record_write(empty_ledger(), empty_ledger(used=gpus(3)))
    harness.record_write(empty_ledger(used=gpus(3)), empty_ledger(used=gpus(5)))
    assert harness.get_count() == 2
    line = harness.log.lines[-1]
    expected = {"event": "ledger-drift", "cap": "gpus", "namespace": "team-a", "amounts": {GPU: "2"}}
    assert line | expected == line


def test_cpu_is_logged_as_a_quantity() -> None:
    harness = Harness()
    names = frozenset({"cpu"})
    harness.record_write(empty_ledger(resources=names), empty_ledger(resources=names, used=Amounts({"cpu": 1500})))
    assert harness.log.lines[-1]["amounts"] == {"cpu": "1500m"}


def test_a_new_ledger_and_a_failed_write_are_no_drift() -> None:
    harness = Harness()
    harness.record_write(None, empty_ledger(used=gpus(3)))
    harness.record_write(empty_ledger(), empty_ledger(used=gpus(3)), WriteResult.CONFLICT)
    harness.record_write(empty_ledger(), empty_ledger(used=gpus(3)), WriteResult.UNKNOWN)
    harness.record_write(empty_ledger(used=gpus(3)), empty_ledger())
    assert (harness.get_count(), harness.log.lines) == (None, [])


def test_devices_whose_attributes_change_are_no_drift() -> None:
    harness = Harness()
    counted = frozenset({"h100", "h100=allocated 0123456789"})
    before = empty_ledger(resources=counted)
    harness.record_write(before, empty_ledger(resources=counted, used=Amounts({"h100": 1})))
    assert harness.get_count() is None
