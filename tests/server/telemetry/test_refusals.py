"""Refusals by cap and reason: each review once for each cap that would not let it through."""

from collections.abc import Collection
from typing import TypeVar

import pytest
from prometheus_client import CollectorRegistry

from tests.gate.scene import CAP, Scene, pod
from tests.gate.test_workload_forecast import workload
from tests.server.building import Log
from webhook.accounting.amounts import Amounts
from webhook.gate.charging import ChargeMode
from webhook.gate.decisions import Decision
from webhook.gate.gate import UndecidedError
from webhook.server.telemetry.metrics import MAX_CAPS, REASONS, RejectionMetrics, ServerMetrics
from webhook.server.web.http_errors import HttpError
from webhook.server.web.request_log import RequestLog
from webhook.state.in_memory import MemoryLedgers
from webhook.state.ledger.ledger import Ledger
from webhook.state.ledger.reserve import Deferred, Prerequisite
from webhook.state.ports import (
    LedgerFullError,
    LedgerKey,
    Ledgers,
    RetryLaterError,
    StoreUnavailableError,
    Transition,
    UnknownOutcomeError,
)

T = TypeVar("T")

SECOND = CAP.replace("name: gpus", "name: more-gpus")
LIMITS = CAP.replace("nvidia.com/gpu: 4", "limits.memory: 4Gi")


class Failing:
    """Ledgers of one cap fail when they are asked so; the others promise."""

    is_standalone = True

    def __init__(self, error: Exception, cap: str = "gpus-", modes: Collection[ChargeMode] = tuple(ChargeMode)) -> None:
        self._error = error
        self._cap = cap
        self._modes = modes
        self._ledgers = MemoryLedgers()

    def transact(self, key: LedgerKey, attempt: Transition[T], deadline: float) -> T:
        """Fail."""
        if key.cap.startswith(self._cap) and getattr(attempt, "mode", None) in self._modes:
            raise self._error
        return self._ledgers.transact(key, attempt, deadline)


class Deferring:
    """Whatever is asked must wait for one thing."""

    is_standalone = False

    def __init__(self, first: Prerequisite) -> None:
        self._first = first

    def transact(self, key: LedgerKey, attempt: Transition[T], deadline: float) -> T:  # noqa: ARG002  # as the port has it
        """Put off."""
        return Deferred(Ledger(Amounts()), self._first)  # type: ignore[return-value]  # charging is all who asks here


class Told:
    """A gate whose refusals are counted as the server does it."""

    def __init__(self, text: str = CAP, ledgers: Ledgers | None = None) -> None:
        self.registry = CollectorRegistry()
        self.refusals = RejectionMetrics(self.registry)
        self.scene = Scene(text, ledgers=ledgers)

    def create(self, gpus: int, **request: object) -> Decision:
        """A pod is asked for, and the answer is told."""
        answer = self.scene.create(gpus, **request)
        self.refusals.count_decision(answer.record)
        return answer

    def counts(self) -> dict[tuple[str, str], float]:
        """What was counted, by cap and reason."""
        (family,) = (each for each in self.registry.collect() if each.name == "tallygate_cap_rejections")
        return {
            (sample.labels["cap"], sample.labels["reason"]): sample.value
            for sample in family.samples
            if sample.name.endswith("_total")
        }


def test_who_finds_room_is_not_counted() -> None:
    told = Told()
    told.create(4)
    assert told.counts() == {}


def test_a_pod_that_is_too_much_is_counted_for_each_cap_that_says_so() -> None:
    told = Told(f"{CAP}---{SECOND}---{SECOND.replace('more-', 'most-').replace('gpu: 4', 'gpu: 9')}")
    told.create(5)
    told.create(5)
    assert told.counts() == {("gpus", "excess"): 2, ("more-gpus", "excess"): 2}


def test_a_pod_without_a_limit_is_counted_as_that() -> None:
    told = Told(LIMITS)
    told.create(1)
    assert told.counts() == {("gpus", "no-limit"): 1}


def test_a_workload_that_is_denied_is_counted_as_that() -> None:
    told = Told(CAP + "  workloads: deny\n")
    told.refusals.count_decision(
        told.scene.admit(workload(3, replicas=2), kind={"group": "apps", "kind": "Deployment"}, name="w").record
    )
    assert told.counts() == {("gpus", "workload"): 1}


def test_a_dry_run_is_not_counted() -> None:
    for ledgers in (MemoryLedgers(), Deferring(Prerequisite.ACTIVATE), Failing(RetryLaterError("busy"))):
        told = Told(ledgers=ledgers)
        told.create(5, dryRun=True)
        assert told.counts() == {}
    with pytest.raises(UndecidedError) as raised:
        Told(ledgers=Failing(StoreUnavailableError("refused"))).create(5, dryRun=True)
    assert raised.value.obstacles == ()


def test_a_ledger_of_unknown_past_is_counted_as_converging() -> None:
    told = Told(ledgers=MemoryLedgers(is_standalone=False))
    assert told.create(1).record.verdict == "retry"
    assert told.counts() == {("gpus", "initializing"): 1}


@pytest.mark.parametrize("first", Prerequisite)
def test_whatever_a_ledger_waits_for_has_a_reason_and_is_counted_once_for_each_cap(first: Prerequisite) -> None:
    told = Told(f"{CAP}---{SECOND}", Deferring(first))
    told.create(1)
    (reason,) = {reason for _, reason in told.counts()}
    assert reason in REASONS - {"other"}
    assert told.counts() == {("gpus", reason): 1, ("more-gpus", reason): 1}


@pytest.mark.parametrize(
    ("error", "reason"),
    [(RetryLaterError("too many requests"), "contention"), (LedgerFullError("too large"), "object-too-large")],
)
def test_a_store_that_has_no_time_is_counted(error: Exception, reason: str) -> None:
    told = Told(f"{CAP}---{SECOND}", Failing(error))
    assert told.create(1).record.verdict == "retry"
    assert told.counts() == {("gpus", reason): 1}


@pytest.mark.parametrize("error", [StoreUnavailableError("refused"), UnknownOutcomeError("reset")])
def test_a_store_out_of_reach_is_counted_though_nothing_is_decided(error: Exception) -> None:
    told = Told(ledgers=Failing(error))
    with pytest.raises(UndecidedError) as raised:
        told.create(1)
    assert told.counts() == {}
    metrics = ServerMetrics("1.0")
    RequestLog(Log().logger, metrics).log_error(HttpError(500, "undecided", "no decision"), raised.value)
    rejections = {"cap": "gpus", "reason": "unavailable"}
    assert metrics.registry.get_sample_value("tallygate_cap_rejections_total", rejections) == 1


def test_who_goes_over_a_cap_by_privilege_is_counted_apart() -> None:
    told = Told(CAP + "  exceed: {groups: [break-glass]}\n")
    told.create(5, userInfo={"username": "jane", "groups": ["break-glass"]})
    assert told.counts() == {}
    assert told.registry.get_sample_value("tallygate_cap_exceeded_total", {"cap": "gpus"}) == 1


def test_a_denial_by_a_rule_is_none_by_a_cap() -> None:
    told = Told()
    answer = told.scene.admit(pod("u1", 1), operation="CREATE")
    record = type(answer.record)(
        **{name: getattr(answer.record, name) for name in answer.record.__struct_fields__}
        | {"verdict": "deny", "codes": ("TG101",), "rules": ("whole-units",)}
    )
    told.refusals.count_decision(record)
    assert told.counts() == {}


def test_names_of_caps_are_bounded() -> None:
    told = Told()
    for number in range(MAX_CAPS + 5):
        told.refusals.count_rejection(f"cap-{number}", "excess")
    told.refusals.count_rejection("cap-0", "excess")
    counts = told.counts()
    assert len(counts) == MAX_CAPS + 1
    assert counts["cap-0", "excess"] == 2
    assert counts["other", "excess"] == 5


def test_a_lost_promise_is_taken_back_through_them_and_that_is_no_refusal() -> None:
    told = Told(f"{CAP}---{SECOND}", Failing(RetryLaterError("busy"), "more-gpus-", [ChargeMode.RESERVE]))
    told.create(1)
    assert told.counts() == {("more-gpus", "contention"): 1}
    assert told.scene.promised() == {}
