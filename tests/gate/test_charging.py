"""The charge of a pod: the transactions on ledgers, and the releases."""

from typing import TypeVar

import pytest
from msgspec.structs import replace

from tallygate.accounting.amounts import Amounts
from tallygate.admission.cap_index import CapIndex
from tallygate.gate.charge_transitions import ChargeMode, ReleaseTransition, ReserveTransition
from tallygate.gate.decisions import UndecidedError
from tallygate.review.cap_charge import CapCharge, ChargedConsumer
from tallygate.state.in_memory import MemoryLedgers
from tallygate.state.ledger.ledger import Ledger, Operation
from tallygate.state.ports import LedgerKey, StoreUnavailableError, Transition, UnknownOutcomeError
from tests.admission.case import parse_policies
from tests.gate.gate_fixture import CAP, GPU, TWO, GateFixture, response

T = TypeVar("T")


class RecordingLedgers(MemoryLedgers):
    """Ledgers that record their transactions, and lose the response of a reservation while `loses_responses`."""

    def __init__(self) -> None:
        super().__init__()
        self.transactions: list[str] = []
        self.loses_responses = False

    def transact(self, key: LedgerKey, attempt: Transition[T], deadline: float) -> T:
        """Run the transaction, and lose the response of a reservation while `loses_responses`."""
        is_release = isinstance(attempt, ReleaseTransition)
        self.transactions.append("release" if is_release else "reserve")
        outcome = super().transact(key, attempt, deadline)
        if self.loses_responses and not is_release:
            raise UnknownOutcomeError("connection reset")
        return outcome


def create_transition(mode: ChargeMode, old: int, new: int) -> ReserveTransition:
    """Return the charge of a pod that has `old` and requests `new` GPUs, under a cap of 4."""
    (cap,) = CapIndex(parse_policies(CAP), None).list_caps()
    before, after = (Amounts({GPU: gpus} if gpus else {}) for gpus in (old, new))
    pod = ChargedConsumer("u1", "team-a", "p", "n1", Operation.UPDATE)
    return ReserveTransition(pod, CapCharge(cap, before, after, may_exceed=False), mode, is_standalone=False)


ACTIVE = Ledger(Amounts({GPU: 4}), resources=frozenset({GPU}))


@pytest.mark.parametrize(
    ("mode", "ledger", "old", "new", "result"),
    [
        pytest.param(ChargeMode.RESERVE, ACTIVE, 0, 1, "written", id="a reservation is written"),
        pytest.param(
            ChargeMode.RESERVE, ACTIVE, 1, 1, "", id="a request without growth is not written and needs a live read"
        ),
        pytest.param(
            ChargeMode.CHECK, ACTIVE, 0, 1, "cached", id="a check needs no live read, since a reservation follows"
        ),
        pytest.param(ChargeMode.DRY_RUN, ACTIVE, 0, 1, "", id="a dry run needs a live read"),
        pytest.param(
            ChargeMode.RESERVE, replace(ACTIVE, initializer="m"), 0, 1, "", id="an initializing ledger stays unchanged"
        ),
        pytest.param(ChargeMode.RESERVE, None, 0, 1, "written", id="a missing ledger is created"),
        pytest.param(ChargeMode.DRY_RUN, None, 0, 1, "", id="a dry run creates no ledger"),
        pytest.param(ChargeMode.RESERVE, ACTIVE, 2, 7, "rejected 5", id="a rejection has the excess"),
    ],
)
def test_a_reserve_transition_has_the_expected_result(
    mode: ChargeMode, ledger: Ledger | None, old: int, new: int, result: str
) -> None:
    step = create_transition(mode, old, new)(ledger)
    rejected = f"rejected {step.rejected_amounts[GPU]}" if step.rejected_amounts is not None else ""
    assert (
        " ".join(filter(None, ("written" * (step.ledger is not None), "cached" * step.accepts_cached, rejected)))
        == result
    )


def test_an_attempt_that_may_be_stored_is_released_after_a_later_rejection() -> None:
    """Its first write may still be in flight."""
    transition = create_transition(ChargeMode.RESERVE, 0, 1)
    assert not transition.may_be_stored
    transition(ACTIVE)
    transition(replace(ACTIVE, used=Amounts({GPU: 4})))
    assert transition.may_be_stored


def test_a_rejection_by_the_only_cap_releases_nothing() -> None:
    ledgers = RecordingLedgers()
    fixture = GateFixture(ledgers=ledgers)
    assert response(fixture.create(4))["allowed"]
    assert not response(fixture.create(1))["allowed"]
    assert ledgers.transactions == ["reserve", "reserve"]


def test_a_reservation_with_an_unknown_outcome_is_released() -> None:
    ledgers = RecordingLedgers()
    fixture = GateFixture(ledgers=ledgers)
    ledgers.loses_responses = True
    with pytest.raises(UndecidedError):
        fixture.create(4)
    assert ledgers.transactions == ["reserve", "release"]
    ledgers.loses_responses = False
    assert fixture.read_reserved() == {}
    assert response(fixture.create(4))["allowed"]


class _Unavailable(MemoryLedgers):
    """Ledgers of which the second is unavailable."""

    def transact(self, key: LedgerKey, attempt: Transition[T], deadline: float) -> T:
        """Fail for the second cap."""
        if key.cap.startswith("b-second"):
            raise StoreUnavailableError("connection refused")
        return super().transact(key, attempt, deadline)


def test_a_cap_that_rejects_the_pod_decides_though_the_ledger_of_another_is_unavailable() -> None:
    fixture = GateFixture(TWO, ledgers=_Unavailable())
    assert response(fixture.create(5))["status"]["code"] == 403
    with pytest.raises(UndecidedError, match="the ledgers are unreachable: connection refused") as raised:
        fixture.create(4)
    assert [obstacle.cap for obstacle in raised.value.obstacles] == ["b-second"]
    assert fixture.read_reserved("a-first") == {}
