"""Metrics of a followed cluster and of the visits to ledgers."""

from prometheus_client import CollectorRegistry, generate_latest

from webhook.kube.api_errors import ApiErrorReason
from webhook.kube.informer import InformerStatus
from webhook.server.telemetry.controller_metrics import LedgerControllerMetrics
from webhook.server.telemetry.ledger_metrics import ObservedLedgers

PODS = InformerStatus("pods", 7, 100, 2.5, None, {ApiErrorReason.RESET: 3}, 1, None)
UNLISTED = InformerStatus("nodes", 0, None, None, "not listed yet", {}, 0, None)


def shown(registry: CollectorRegistry) -> set[str]:
    """The lines of /metrics that say a number."""
    return {line for line in generate_latest(registry).decode().splitlines() if not line.startswith("#")}


def seen() -> ObservedLedgers:
    """No ledger yet."""
    return ObservedLedgers(lambda: 5.0)


def test_what_is_followed_is_told_by_resource() -> None:
    registry = CollectorRegistry()
    LedgerControllerMetrics(registry, lambda: (PODS, UNLISTED), seen(), lambda: True)
    lines = shown(registry)
    assert {
        'tallygate_watch_objects{resource="pods"} 7.0',
        'tallygate_watch_age_seconds{resource="pods"} 2.5',
        'tallygate_watch_restarts_total{reason="reset",resource="pods"} 3.0',
        'tallygate_watch_objects{resource="nodes"} 0.0',
    } <= lines
    assert not any("age" in line and "nodes" in line for line in lines)


def test_visits_and_promises_that_came_to_nothing_are_counted() -> None:
    registry = CollectorRegistry()
    figures = LedgerControllerMetrics(registry, tuple, seen(), lambda: True)
    figures.count_reconcile("written")
    figures.count_expired(2)
    assert {
        'tallygate_ledger_reconcile_total{result="written"} 1.0',
        "tallygate_reservations_expired_total 2.0",
    } <= shown(registry)


def test_which_replica_keeps_ledgers_is_told_as_it_is_now() -> None:
    registry, leads = CollectorRegistry(), [False, True]
    LedgerControllerMetrics(registry, tuple, seen(), lambda: leads[0])
    assert "tallygate_leader 0.0" in shown(registry)
    leads.pop(0)
    assert "tallygate_leader 1.0" in shown(registry)
