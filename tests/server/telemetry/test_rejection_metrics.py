"""Rejections by cap and reason: each review counts once for each cap that rejects it."""

from collections.abc import Collection
from typing import TypeVar

import pytest
from prometheus_client import CollectorRegistry

from tallygate.accounting.amounts import Amounts
from tallygate.gate.charge_transitions import ChargeMode
from tallygate.gate.decisions import Decision, UndecidedError
from tallygate.server.telemetry.metrics import MAX_CAPS, REASONS, RejectionMetrics, ServerMetrics
from tallygate.server.web.http_errors import HttpError
from tallygate.server.web.request_log import RequestLog
from tallygate.state.in_memory import MemoryLedgers
from tallygate.state.ledger.ledger import Ledger
from tallygate.state.ledger.reserve import Deferred, Prerequisite
from tallygate.state.ports import (
    LedgerFullError,
    LedgerKey,
    Ledgers,
    RetryLaterError,
    StoreUnavailableError,
    Transition,
    UnknownOutcomeError,
)
from tests.gate.gate_fixture import CAP, GateFixture, pod
from tests.gate.test_workload_forecast import workload
from tests.server.app_harness import Log

T = TypeVar("T")

SECOND = CAP.replace("name: gpus", "name: more-gpus")
LIMITS = CAP.replace("nvidia.com/gpu: 4", "limits.memory: 4Gi")


class FailingLedgers:
    """Ledgers of one cap fail in some charge modes; the other ledgers reserve."""

    is_standalone = True

    def __init__(self, error: Exception, cap: str = "gpus-", modes: Collection[ChargeMode] = tuple(ChargeMode)) -> None:
        self._error = error
        self._cap = cap
        self._modes = modes
        self._ledgers = MemoryLedgers()

    def transact(self, key: LedgerKey, transition: Transition[T], deadline: float) -> T:
        """Raise the error, or apply the transition."""
        if key.cap.startswith(self._cap) and getattr(transition, "mode", None) in self._modes:
            raise self._error
        return self._ledgers.transact(key, transition, deadline)


class DeferringLedgers:
    """Ledgers that defer every transition until one prerequisite is met."""

    is_standalone = False

    def __init__(self, first: Prerequisite) -> None:
        self._first = first

    def transact(self, key: LedgerKey, transition: Transition[T], deadline: float) -> T:  # noqa: ARG002  # as the port has it
        """Defer the transition."""
        return Deferred(Ledger(Amounts()), self._first)  # type: ignore[return-value]  # only charges come here


class GateHarness:
    """A gate whose rejections are counted as the server does it."""

    def __init__(self, text: str = CAP, ledgers: Ledgers | None = None) -> None:
        self.registry = CollectorRegistry()
        self.rejections = RejectionMetrics(self.registry)
        self.fixture = GateFixture(text, ledgers=ledgers)

    def create(self, gpus: int, **request: object) -> Decision:
        """Request a pod, and count the decision."""
        answer = self.fixture.create(gpus, **request)
        self.rejections.count_decision(answer.record)
        return answer

    def get_counts(self) -> dict[tuple[str, str], float]:
        """Return the counts by cap and reason."""
        (family,) = (each for each in self.registry.collect() if each.name == "tallygate_cap_rejections")
        return {
            (sample.labels["cap"], sample.labels["reason"]): sample.value
            for sample in family.samples
            if sample.name.endswith("_total")
        }


def test_an_admitted_pod_is_not_counted() -> None:
    harness = GateHarness()
    harness.create(4)
    assert harness.get_counts() == {}


def test_a_pod_that_exceeds_caps_is_counted_for_each_of_them() -> None:
    harness = GateHarness(f"{CAP}---{SECOND}---{SECOND.replace('more-', 'most-').replace('gpu: 4', 'gpu: 9')}")
    harness.create(5)
    harness.create(5)
    assert harness.get_counts() == {("gpus", "excess"): 2, ("more-gpus", "excess"): 2}


def test_a_pod_without_a_limit_has_its_own_reason() -> None:
    harness = GateHarness(LIMITS)
    harness.create(1)
    assert harness.get_counts() == {("gpus", "no-limit"): 1}


def test_a_denied_workload_has_its_own_reason() -> None:
    harness = GateHarness(CAP + "  workloads: deny\n")
    harness.rejections.count_decision(
        harness.fixture.admit(workload(3, replicas=2), kind={"group": "apps", "kind": "Deployment"}, name="w").record
    )
    assert harness.get_counts() == {("gpus", "workload"): 1}


def test_a_dry_run_is_not_counted() -> None:
    for ledgers in (MemoryLedgers(), DeferringLedgers(Prerequisite.ACTIVATE), FailingLedgers(RetryLaterError("busy"))):
        harness = GateHarness(ledgers=ledgers)
        harness.create(5, dryRun=True)
        assert harness.get_counts() == {}
    with pytest.raises(UndecidedError) as raised:
        GateHarness(ledgers=FailingLedgers(StoreUnavailableError("refused"))).create(5, dryRun=True)
    assert raised.value.obstacles == ()


def test_a_ledger_of_unknown_past_is_counted_as_initializing() -> None:
    harness = GateHarness(ledgers=MemoryLedgers(is_standalone=False))
    assert harness.create(1).record.verdict == "retry"
    assert harness.get_counts() == {("gpus", "initializing"): 1}


@pytest.mark.parametrize("first", Prerequisite)
def test_each_prerequisite_has_a_reason_and_is_counted_once_for_each_cap(first: Prerequisite) -> None:
    harness = GateHarness(f"{CAP}---{SECOND}", DeferringLedgers(first))
    harness.create(1)
    (reason,) = {reason for _, reason in harness.get_counts()}
    assert reason in REASONS - {"other"}
    assert harness.get_counts() == {("gpus", reason): 1, ("more-gpus", reason): 1}


@pytest.mark.parametrize(
    ("error", "reason"),
    [(RetryLaterError("too many requests"), "contention"), (LedgerFullError("too large"), "object-too-large")],
)
def test_a_store_that_asks_to_retry_is_counted(error: Exception, reason: str) -> None:
    harness = GateHarness(f"{CAP}---{SECOND}", FailingLedgers(error))
    assert harness.create(1).record.verdict == "retry"
    assert harness.get_counts() == {("gpus", reason): 1}


@pytest.mark.parametrize("error", [StoreUnavailableError("refused"), UnknownOutcomeError("reset")])
def test_an_unreachable_store_is_counted_though_nothing_is_decided(error: Exception) -> None:
    harness = GateHarness(ledgers=FailingLedgers(error))
    with pytest.raises(UndecidedError) as raised:
        harness.create(1)
    assert harness.get_counts() == {}
    metrics = ServerMetrics("1.0")
    RequestLog(Log().logger, metrics).log_error(HttpError(500, "undecided", "no decision"), raised.value)
    labels = {"cap": "gpus", "reason": "unavailable"}
    assert metrics.registry.get_sample_value("tallygate_cap_rejections_total", labels) == 1


def test_a_cap_exceeded_by_privilege_is_counted_separately() -> None:
    harness = GateHarness(CAP + "  exceed: {groups: [break-glass]}\n")
    harness.create(5, userInfo={"username": "jane", "groups": ["break-glass"]})
    assert harness.get_counts() == {}
    assert harness.registry.get_sample_value("tallygate_cap_exceeded_total", {"cap": "gpus"}) == 1


def test_a_denial_by_a_rule_is_not_counted() -> None:
    harness = GateHarness()
    answer = harness.fixture.admit(pod("u1", 1), operation="CREATE")
    record = type(answer.record)(
        **{name: getattr(answer.record, name) for name in answer.record.__struct_fields__}
        | {"verdict": "deny", "codes": ("TG101",), "rules": ("whole-units",)}
    )
    harness.rejections.count_decision(record)
    assert harness.get_counts() == {}


def test_names_of_caps_are_bounded() -> None:
    harness = GateHarness()
    for number in range(MAX_CAPS + 5):
        harness.rejections.count_rejection(f"cap-{number}", "excess")
    harness.rejections.count_rejection("cap-0", "excess")
    counts = harness.get_counts()
    assert len(counts) == MAX_CAPS + 1
    assert counts["cap-0", "excess"] == 2
    assert counts["other", "excess"] == 5


def test_a_reservation_is_released_after_another_cap_fails_and_that_is_no_rejection() -> None:
    harness = GateHarness(
        f"{CAP}---{SECOND}", FailingLedgers(RetryLaterError("busy"), "more-gpus-", [ChargeMode.RESERVE])
    )
    harness.create(1)
    assert harness.get_counts() == {("more-gpus", "contention"): 1}
    assert harness.fixture.read_reserved() == {}
