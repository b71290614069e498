"""Pods that came past the gate are counted by cap, told of, and logged with their namespace."""

from prometheus_client import CollectorRegistry

from tests.server.building import Log
from tests.state.ledger.ledgers import GPU, empty, gpus
from webhook.accounting.amounts import Amounts
from webhook.server.telemetry.ledger_metrics import DriftMetrics
from webhook.state.ledger.ledger import Ledger
from webhook.state.ports import LedgerKey, LedgerWrite, WriteResult

KEY = LedgerKey("gpus-0123456789", "team-a")


class Told:
    """What came of writes."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.log = Log()
        self._drifts = DriftMetrics(self.registry, self.log.logger)

    def wrote(self, before: Ledger | None, after: Ledger, end: WriteResult = WriteResult.STORED) -> None:
        """A write."""
        self._drifts.record_write(LedgerWrite(KEY, before, after, 1, 0.0, end))

    def times(self) -> float | None:
        """How often."""
        return self.registry.get_sample_value("tallygate_ledger_drift_total", {"cap": "gpus"})

    def last(self, resource: str) -> float | None:
        """How much, the last time."""
        return self.registry.get_sample_value("tallygate_ledger_drift_last", {"cap": "gpus", "resource": resource})


def test_what_came_past_the_gate_is_counted_and_logged() -> None:
    told = Told()
    told.wrote(empty(), empty(used=gpus(3)))
    told.wrote(empty(used=gpus(3)), empty(used=gpus(5)))
    assert (told.times(), told.last(GPU)) == (2, 2)
    line = told.log.lines[-1]
    expected = {"event": "ledger-drift", "cap": "gpus", "namespace": "team-a", "amounts": {GPU: "2"}}
    assert line | expected == line


def test_cpu_is_told_in_cores() -> None:
    told = Told()
    names = frozenset({"cpu"})
    told.wrote(empty(resources=names), empty(resources=names, used=Amounts({"cpu": 1500})))
    assert told.last("cpu") == 1.5
    assert told.log.lines[-1]["amounts"] == {"cpu": "1500m"}


def test_what_was_not_stored_or_not_there_before_says_nothing() -> None:
    told = Told()
    told.wrote(None, empty(used=gpus(3)))
    told.wrote(empty(), empty(used=gpus(3)), WriteResult.CONFLICT)
    told.wrote(empty(), empty(used=gpus(3)), WriteResult.UNKNOWN)
    told.wrote(empty(used=gpus(3)), empty())
    assert (told.times(), told.log.lines) == (None, [])
