"""The controller of ledgers reconciles each of them by the limits of the moment, also when an override has ended."""

import itertools
import time
from datetime import UTC, datetime
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from tallygate.admission.cap_index import ActiveCap
from tallygate.admission.capacity_limits import Capacity
from tallygate.errors import TallygateError
from tallygate.gate.ledger_reconciler import LedgerReconciler, ReconcileResult
from tallygate.policy.model import PolicySet
from tallygate.server.controllers.ledger_controller import LedgerController
from tallygate.server.telemetry.controller_metrics import LedgerControllerMetrics
from tallygate.server.telemetry.ledger_metrics import ObservedLedgers
from tallygate.state.informers.claim_store import ClaimStore
from tallygate.state.informers.device_store import DeviceStore
from tallygate.state.ports import LedgerKey, LedgerWrite, StoreUnavailableError, WriteResult
from tests.gate.claim_replica import ClaimReplica, create_claim_replica
from tests.gate.gate_fixture import BY_LABEL, CAP, GPU, TWO
from tests.gate.replica_fixture import BOUND, ReplicaFixture, create_active_replica
from tests.gate.test_allocated_devices import BY_MODEL, h100s
from tests.gate.test_cap_groups import count_gpus, create_replica, label_namespace, store_pod
from tests.server.app_harness import Log
from tests.state.informers.claims import create_claim
from tests.state.informers.pods import pod as stored_pod
from tests.state.informers.slices import create_slice, slice_page
from tests.state.transitions import Read

RAISED = CAP + "  overrides: [{namespaces: [team-a], hard: {nvidia.com/gpu: 6}, until: 2026-12-04T18:00:00Z}]\n"
ANNOTATED = CAP + "  overrideAnnotation: {setBy: {groups: [admins]}, most: {nvidia.com/gpu: 8}}\n"
SHARES = TWO.replace("gpu: 4", "gpu: 25%")
END = datetime(2026, 12, 4, 18, tzinfo=UTC)
PERIOD = 300.0


def _create_controller(
    replica: ReplicaFixture,
    log: Log | None = None,
    observed: ObservedLedgers | None = None,
    registry: CollectorRegistry | None = None,
) -> LedgerController:
    state = SimpleNamespace(
        pods=replica.pods,
        claims=replica.claims if isinstance(replica, ClaimReplica) else ClaimStore(time.monotonic),
        devices=replica.devices if isinstance(replica, ClaimReplica) else DeviceStore(),
        namespaces=replica.namespaces,
    )
    informers = SimpleNamespace(state=state)
    observed = observed or ObservedLedgers(time.monotonic)
    metrics = LedgerControllerMetrics(registry or CollectorRegistry(), list, observed, lambda: True)
    replica.follow_gate()
    logger = (log or Log()).logger
    caps = replica.gate.get_active_caps
    return LedgerController(cast("Any", informers), replica.reconciler, caps, logger, metrics)


@pytest.fixture
def still_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no time pass, so that no ledger is due by the schedule."""
    monkeypatch.setattr(time, "monotonic", lambda: 1000.0)


def _list_due(controller: LedgerController) -> list[str]:
    """Return the namespaces of the ledgers that are due, which are not due any more then."""
    return sorted(key.namespace for key in controller._find_due())  # noqa: SLF001  # without their reconciliation


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


@pytest.mark.usefixtures("still_clock")
def test_a_change_of_capacity_makes_the_ledgers_due_whose_limit_differs_by_it_and_no_others() -> None:
    replica = create_active_replica(SHARES)

    def set_capacities(**capacities: Capacity) -> None:
        found = {name.replace("_", "-"): {GPU: capacity} for name, capacity in capacities.items()}
        replica.cap_sources = replica.cap_sources._replace(capacities=found)

    set_capacities(a_first=Capacity(16), b_second=Capacity(16))
    controller = _create_controller(replica)

    def list_due() -> list[str]:
        return [key.cap.rpartition("-")[0] for key in sorted(controller._find_due(), key=str)]  # noqa: SLF001

    assert list_due() == ["a-first", "b-second"]
    set_capacities(a_first=Capacity(16), b_second=Capacity(24))
    assert (list_due(), list_due()) == (["b-second"], [])
    set_capacities(a_first=Capacity(17, 8, END), b_second=Capacity(24))
    assert list_due() == []
    set_capacities(a_first=Capacity(8), b_second=Capacity(24))
    replica.observe(replica.store_pod("u1", 1)["metadata"]["uid"])
    assert list_due() == ["a-first", "b-second"]
    set_capacities(b_second=Capacity(24))
    assert list_due() == ["a-first"]


@pytest.mark.usefixtures("still_clock")
def test_a_pod_a_list_and_a_namespace_make_their_ledgers_due_and_nothing_else_does() -> None:
    replica = ReplicaFixture(BY_LABEL, ())
    for name in ("team-a", "team-b"):
        replica.label_namespace(name, gpu="yes")
    replica.activate_ledgers()
    controller = _create_controller(replica)
    assert (_list_due(controller), _list_due(controller)) == (["team-a", "team-b"], [])
    replica.store_pod("p")
    replica.observe("p")
    assert (_list_due(controller), _list_due(controller)) == (["team-a"], [])
    replica.relist()
    assert (_list_due(controller), _list_due(controller)) == (["team-a", "team-b"], [])
    replica.label_namespace("team-c", gpu="yes")
    assert (_list_due(controller), _list_due(controller)) == (["team-c"], [])


@pytest.mark.usefixtures("still_clock")
def test_a_claim_and_under_a_cap_by_attributes_a_slice_make_ledgers_due() -> None:
    for text, due in (
        (CAP, []),
        (BY_MODEL, ["team-a"]),
        (f"{BY_MODEL}---\n{CAP.replace('gpus', 'more')}", ["team-a"] * 2),
    ):
        replica = create_claim_replica(text)
        controller = _create_controller(replica)
        assert (bool(_list_due(controller)), _list_due(controller)) == (True, [])
        replica.devices.apply(slice_page(replica.revision, create_slice(replica.revision, *h100s(1))))
        assert (_list_due(controller), _list_due(controller)) == (due, [])
        replica.observe_claim(create_claim("c1", replica.next_revision()))
        assert (_list_due(controller), _list_due(controller)) == (["team-a"] * max(len(due), 1), [])


def test_every_ledger_is_due_once_in_a_period_although_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a replica that died have left a reservation, of which no other one knows."""
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    controller = _create_controller(create_active_replica(CAP))
    assert (_list_due(controller), _list_due(controller)) == (["team-a"], [])
    for _ in range(2):
        now += PERIOD - 1.0
        assert (_list_due(controller), _list_due(controller)) == (["team-a"], [])
        now += 1.0  # the next pass begins
        assert _list_due(controller) == []


@pytest.mark.usefixtures("still_clock")
def test_a_failed_reconciliation_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    replica, reconcile = ReplicaFixture(CAP, ("team-a", "team-b")), LedgerReconciler.reconcile
    replica.activate_ledgers()
    failed: list[LedgerKey] = []

    def fail_first(reconciler: LedgerReconciler, key: LedgerKey, cap: ActiveCap) -> ReconcileResult:
        if not failed:
            failed.append(key)
            raise StoreUnavailableError("the store is away")
        return reconcile(reconciler, key, cap)

    controller = _create_controller(replica)
    for name in ("team-a", "team-b"):
        replica.store_pod(f"p-{name}", namespace=name)
        replica.observe(f"p-{name}")
    monkeypatch.setattr(LedgerReconciler, "reconcile", fail_first)
    with pytest.raises(TallygateError, match="the store is away"):
        controller._reconcile_due()  # noqa: SLF001  # one run, without its thread
    assert sorted(replica.count_gpus(name) for name in ("team-a", "team-b")) == [(0, 0), (1, 0)]


@pytest.mark.usefixtures("still_clock")
def test_a_ledger_of_a_deleted_namespace_is_removed_once_it_may_be() -> None:
    replica = create_active_replica(CAP)
    controller, key = _create_controller(replica), LedgerKey(replica.caps.list_caps()[0].key, "team-a")
    assert controller._reconcile_due()  # noqa: SLF001  # one run, without its thread
    replica.forbid_deletion(is_forbidden=True)
    replica.delete_namespace("team-a")
    with pytest.raises(TallygateError, match="must be allowed to delete"):
        controller._reconcile_due()  # noqa: SLF001
    replica.forbid_deletion(is_forbidden=False)
    assert _list_due(controller) == []
    replica.now += 61.0
    assert controller._reconcile_due()  # noqa: SLF001
    assert replica.ledgers.transact(key, Read(), replica.now + 1) is None


@pytest.mark.usefixtures("still_clock")
def test_a_pending_ledger_of_a_deleted_cap_is_dropped() -> None:
    replica = create_active_replica(CAP)
    controller = _create_controller(replica)
    assert replica.request_pod("p") == 200
    assert controller._reconcile_due()  # noqa: SLF001  # one run, without its thread
    assert replica.reconciler.list_pending()
    replica.policies = PolicySet()
    assert controller._reconcile_due()  # noqa: SLF001
    assert replica.reconciler.list_pending() == ()


@pytest.mark.usefixtures("still_clock")
def test_a_run_ends_when_the_controller_stops() -> None:
    replica = create_active_replica(CAP)
    controller = _create_controller(replica)
    replica.store_pod("p")
    replica.observe("p")
    controller.worker.stop()
    assert not controller._reconcile_due()  # noqa: SLF001  # one run, without its thread
    assert replica.count_gpus() == (0, 0)


@pytest.mark.usefixtures("still_clock")
def test_expired_reservations_are_counted() -> None:
    replica, registry = create_active_replica(CAP), CollectorRegistry()
    controller = _create_controller(replica, registry=registry)
    assert replica.request_pod("never-stored") == 200
    for _ in range(4):
        assert controller._reconcile_due()  # noqa: SLF001  # one run, without its thread
        replica.now += BOUND + 1.0
    assert replica.count_gpus() == (0, 0)
    assert registry.get_sample_value("tallygate_reservations_expired_total") == 1.0


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


@pytest.mark.usefixtures("still_clock")
def test_a_reservation_that_is_stored_during_a_reconciliation_is_reconciled_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Let the pod never be stored: no watch shows that its reservation must expire."""
    replica, observed = create_active_replica(CAP), ObservedLedgers(partial(next, itertools.count(1.0)))
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
    assert [key.namespace for key in controller._find_due()] == ["team-a"]  # noqa: SLF001
