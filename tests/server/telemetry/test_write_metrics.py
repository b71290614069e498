"""Histograms of the writes of ledgers."""

from prometheus_client import CollectorRegistry

from tallygate.server.telemetry.ledger_metrics import CapMetrics
from tallygate.state.batched_ledgers import BatchedLedgers
from tests.server.app_harness import Log
from tests.state.batched_ledgers.scripted_store import KEY, Clock, ScriptedStore
from tests.state.transitions import Take, free_ledger


def test_writes_are_counted_by_result_and_duration() -> None:
    registry, clock = CollectorRegistry(), Clock()

    def slow(store: ScriptedStore) -> None:
        clock.seconds += 0.2
        store.change(free_ledger(5))

    metrics = CapMetrics(registry, Log().logger, clock)
    store = ScriptedStore(free_ledger(4), writes=[slow])
    assert BatchedLedgers(store, clock, metrics.cluster_observer).transact(KEY, Take("u1"), 10.0)
    value = registry.get_sample_value
    assert value("tallygate_ledger_write_duration_seconds_sum", {"result": "conflict"}) == 0.2
    assert value("tallygate_ledger_write_duration_seconds_count", {"result": "conflict"}) == 1
    assert value("tallygate_ledger_write_duration_seconds_count", {"result": "stored"}) == 1
    assert value("tallygate_ledger_write_duration_seconds_count", {"result": "unknown"}) == 0
    assert value("tallygate_ledger_batch_size_bucket", {"le": "1.0"}) == 2
    assert value("tallygate_ledger_batch_size_count") == 2
    assert {key: observed.ledger for key, observed in metrics.observed_ledgers.list_all().items()} == {
        KEY: store.ledger
    }
