"""Metrics of informers and of the reconciliation of ledgers."""

from prometheus_client import CollectorRegistry, generate_latest

from tallygate.kube.api_errors import ApiErrorReason
from tallygate.kube.informer import InformerStatus
from tallygate.server.telemetry.controller_metrics import LedgerControllerMetrics
from tallygate.server.telemetry.ledger_metrics import ObservedLedgers

PODS = InformerStatus("pods", 7, 100, 2.5, None, {ApiErrorReason.RESET: 3}, 1, None, 12)
UNLISTED = InformerStatus("nodes", 0, None, None, "not listed yet", {}, 0, None)


def list_metric_lines(registry: CollectorRegistry) -> set[str]:
    """Return the lines of /metrics that have a value."""
    return {line for line in generate_latest(registry).decode().splitlines() if not line.startswith("#")}


def create_observed_ledgers() -> ObservedLedgers:
    """Return observed ledgers without any ledger."""
    return ObservedLedgers(lambda: 5.0)


def test_watches_are_reported_by_resource() -> None:
    registry = CollectorRegistry()
    LedgerControllerMetrics(registry, lambda: (PODS, UNLISTED), create_observed_ledgers(), lambda: True)
    lines = list_metric_lines(registry)
    assert {
        'tallygate_watch_objects{resource="pods"} 7.0',
        'tallygate_watch_age_seconds{resource="pods"} 2.5',
        'tallygate_watch_restarts_total{reason="reset",resource="pods"} 3.0',
        'tallygate_watch_added_total{resource="pods"} 12.0',
        'tallygate_watch_objects{resource="nodes"} 0.0',
    } <= lines
    assert not any("age" in line and "nodes" in line for line in lines)


def test_reconciliations_and_expired_reservations_are_counted() -> None:
    registry = CollectorRegistry()
    metrics = LedgerControllerMetrics(registry, tuple, create_observed_ledgers(), lambda: True)
    metrics.count_reconcile("written")
    metrics.count_expired(2)
    assert {
        'tallygate_ledger_reconcile_total{result="written"} 1.0',
        "tallygate_reservations_expired_total 2.0",
    } <= list_metric_lines(registry)


def test_leadership_is_reported_as_it_is_now() -> None:
    registry, is_leader = CollectorRegistry(), [False, True]
    LedgerControllerMetrics(registry, tuple, create_observed_ledgers(), lambda: is_leader[0])
    assert "tallygate_leader 0.0" in list_metric_lines(registry)
    is_leader.pop(0)
    assert "tallygate_leader 1.0" in list_metric_lines(registry)
