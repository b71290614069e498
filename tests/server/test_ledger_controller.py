"""The controller of ledgers reconciles each of them by the limits of the moment, also when an override has ended."""

import time
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from tallygate.webhook.admission.cap_index import ActiveCap
from tallygate.webhook.errors import TallygateError
from tallygate.webhook.gate.ledger_reconciler import LedgerReconciler, ReconcileResult
from tallygate.webhook.server.controllers.ledger_controller import LedgerController
from tallygate.webhook.server.telemetry.controller_metrics import LedgerControllerMetrics
from tallygate.webhook.server.telemetry.ledger_metrics import ObservedLedgers
from tallygate.webhook.state.informers.claim_store import ClaimStore
from tallygate.webhook.state.informers.device_store import DeviceStore
from tallygate.webhook.state.ports import LedgerKey, LedgerWrite, StoreUnavailableError, WriteResult
from tests.gate.gate_fixture import BY_LABEL, CAP
from tests.gate.replica_fixture import ReplicaFixture, create_active_replica
from tests.gate.test_cap_groups import count_gpus, create_replica, label_namespace, store_pod
from tests.server.app_harness import Log
from tests.state.informers.pods import pod as stored_pod

RAISED = CAP + "  overrides: [{namespaces: [team-a], hard: {nvidia.com/gpu: 6}, until: 2026-12-04T18:00:00Z}]\n"
ANNOTATED = CAP + "  overrideAnnotation: {setBy: {groups: [admins]}, most: {nvidia.com/gpu: 8}}\n"
END = datetime(2026, 12, 4, 18, tzinfo=UTC)
PERIOD = 300.0


def _create_controller(
    replica: ReplicaFixture, log: Log | None = None, observed: ObservedLedgers | None = None
) -> LedgerController:
    informers = SimpleNamespace(
        pod_store=replica.pods,
        claim_store=ClaimStore(time.monotonic),
        device_store=DeviceStore(),
        namespace_store=replica.namespaces,
    )
    observed = observed or ObservedLedgers(time.monotonic)
    metrics = LedgerControllerMetrics(CollectorRegistry(), list, observed, lambda: True)
    replica.follow_gate()
    logger = (log or Log()).logger
    caps = replica.gate.get_active_caps
    return LedgerController(cast("Any", informers), replica.reconciler, caps, logger, metrics)


def test_the_end_of_an_override_is_written_at_once_and_no_later_pass_restores_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    replica, now = create_active_replica(RAISED), 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    replica.utc = END.replace(hour=17)
    reconcile_due = _create_controller(replica)._reconcile_due  # noqa: SLF001  # one run, without its thread
    assert reconcile_due()
    assert replica.read_ledger().hard == {"nvidia.com/gpu": 6}
    replica.utc = END
    assert reconcile_due()
    assert replica.read_ledger().hard == {"nvidia.com/gpu": 4}
    now += PERIOD - 1.0  # the pass that began before the end is over
    assert reconcile_due()
    assert replica.read_ledger().hard == {"nvidia.com/gpu": 4}
    replica.utc = END.replace(hour=17)  # the clock is set back
    assert reconcile_due()
    assert replica.read_ledger().hard == {"nvidia.com/gpu": 6}


def test_an_annotation_is_written_at_once_and_one_that_is_not_valid_is_logged_once() -> None:
    replica, log = create_active_replica(ANNOTATED), Log()
    reconcile_due = _create_controller(replica, log)._reconcile_due  # noqa: SLF001  # one run, without its thread
    replica.annotate_namespace("team-a", gpus="nvidia.com/gpu=7")
    assert reconcile_due()
    assert replica.read_ledger().hard == {"nvidia.com/gpu": 7}
    replica.annotate_namespace("team-a", gpus="nvidia.com/gpu=9")
    for _ in range(2):
        assert reconcile_due()
        assert replica.read_ledger().hard == {"nvidia.com/gpu": 4}
    replica.annotate_namespace("team-b", gpus="nvidia.com/gpu=5")
    assert reconcile_due()
    (line,) = [each for each in log.lines if each["event"] == "limit-annotation-invalid"]
    assert line["message"] == (
        "the annotation limits.tallygate.dev/gpus of namespace team-a sets no limit: nvidia.com/gpu: 9 is more than an "
        "annotation may give; write 8 or less"
    )


def test_a_ledger_whose_reconciliation_failed_is_reconciled_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    replica, reconcile, failures = create_active_replica(CAP), LedgerReconciler.reconcile, ["the store is away"]
    controller, keys = _create_controller(replica), list[LedgerKey]()

    def reconcile_or_fail(reconciler: LedgerReconciler, key: LedgerKey, cap: ActiveCap) -> ReconcileResult:
        keys.append(key)
        if failures:
            raise StoreUnavailableError(failures.pop())
        return reconcile(reconciler, key, cap)

    assert controller._reconcile_due()  # noqa: SLF001  # one run, without its thread
    monkeypatch.setattr(LedgerReconciler, "reconcile", reconcile_or_fail)
    replica.store_pod("p")
    replica.observe("p")
    with pytest.raises(TallygateError, match="the store is away"):
        controller._reconcile_due()  # noqa: SLF001
    assert controller._reconcile_due()  # noqa: SLF001
    assert len(keys) == 2
    assert replica.count_gpus() == (1, 0)


def test_a_namespace_that_leaves_a_shared_cap_is_counted_out_of_it_at_once() -> None:
    replica = ReplicaFixture(BY_LABEL.replace("hard:", "shared: true\n  hard:"), ())
    for name in ("team-a", "team-b"):
        replica.label_namespace(name, gpu="yes")
    replica.activate_ledgers()
    reconcile_due = _create_controller(replica)._reconcile_due  # noqa: SLF001  # one run, without its thread
    for name in ("team-a", "team-b"):
        replica.store_pod(f"p-{name}", namespace=name)
        replica.observe(f"p-{name}")
    assert reconcile_due()
    assert replica.count_gpus() == (2, 0)
    replica.label_namespace("team-a")
    assert reconcile_due()
    assert replica.count_gpus() == (1, 0)


def test_a_namespace_that_enters_another_group_is_counted_out_of_the_one_with_other_members_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Let the changed namespace lead to its new group alone: only another member leads to the group that it left."""
    monkeypatch.setattr(time, "monotonic", lambda: 1000.0)  # no ledger is due by the schedule
    replica = create_replica(team_a="vision", team_b="vision")
    reconcile_due = _create_controller(replica)._reconcile_due  # noqa: SLF001  # one run, without its thread
    for name in ("team-a", "team-b"):
        store_pod(replica, f"p-{name}", 1, name)
    assert reconcile_due()
    assert count_gpus(replica, "vision") == (2, 0)
    label_namespace(replica, "team_a", "speech")
    assert reconcile_due()
    assert (count_gpus(replica, "vision"), count_gpus(replica, "speech")) == ((1, 0), (1, 0))


def test_a_leader_that_sees_a_lost_replica_reconciles_every_ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    replica = create_active_replica(CAP)
    controller = _create_controller(replica)
    for _ in range(2):
        assert controller._reconcile_due()  # noqa: SLF001  # one run, without its thread
        now += 100.0  # the pass over all ledgers ends, and the next one is not due
    assert not controller._find_due()  # noqa: SLF001
    replica.leadership.lost_replicas += 1
    assert [key.namespace for key in controller._find_due()] == ["team-a"]  # noqa: SLF001


def test_a_reservation_that_is_stored_during_a_reconciliation_is_reconciled_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Let the pod never be stored: no watch shows that its reservation must expire."""
    replica, observed = create_active_replica(CAP), ObservedLedgers(time.monotonic)
    controller, reconcile = _create_controller(replica, observed=observed), LedgerReconciler.reconcile

    def reconcile_meanwhile(reconciler: LedgerReconciler, key: LedgerKey, cap: ActiveCap) -> ReconcileResult:
        result = reconcile(reconciler, key, cap)
        replica.admit(stored_pod("never-stored", 0, "1", "team-a"), namespace="team-a", name="never-stored")
        write = LedgerWrite(key, result.ledger, replica.read_ledger(), 1, 0.0, WriteResult.STORED)
        observed.record_write(write)
        return result

    monkeypatch.setattr(LedgerReconciler, "reconcile", reconcile_meanwhile)
    assert controller._reconcile_due()  # noqa: SLF001  # one run, without its thread
    assert replica.read_ledger().reservations
    assert [key.namespace for key in observed.list_pending()] == ["team-a"]
