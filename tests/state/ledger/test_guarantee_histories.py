"""Random histories of guarantees with the transitions of the product; each wrong variant violates an invariant."""

from collections.abc import Mapping
from typing import Any
from unittest.mock import patch

import pytest
from msgspec.structs import replace

from tallygate.accounting.amounts import NO_AMOUNTS
from tallygate.state.ledger.guarantees import Guarantees, create_guarantees
from tallygate.state.ledger.ledger import Ledger
from tallygate.state.ledger.recount import UsageSnapshot
from tallygate.state.ledger.reserve import ReservationRequest
from tests.effort import examples
from tests.state.ledger.guarantee_world import GuaranteeRules, GuaranteeWorld
from tests.state.ledger.ledger_history import check_variant

_HISTORIES = 600
_compute_unspent = Guarantees.compute_unspent


class _WrongSum(GuaranteeRules):
    """Unspent guarantees are computed in a wrong way."""

    def reserve(self, ledger: Ledger, request: ReservationRequest) -> Ledger | None:
        with patch.object(Guarantees, "compute_unspent", self.compute):
            return super().reserve(ledger, request)

    @staticmethod
    def compute(guarantees: Guarantees, reserved: Any, besides: str = "") -> Mapping[str, int]:
        raise NotImplementedError


class _CountsTwice(_WrongSum):
    """Reservations are subtracted twice from the guarantee of their namespace."""

    @staticmethod
    def compute(guarantees: Guarantees, reserved: Any, besides: str = "") -> Mapping[str, int]:
        doubled = {name: amounts + amounts for name, amounts in reserved.items()}
        return _compute_unspent(guarantees, doubled, besides)


class _ForgetsReservations(_WrongSum):
    """Reservations are not subtracted from the guarantee of their namespace."""

    @staticmethod
    def compute(guarantees: Guarantees, _reserved: Any, besides: str = "") -> Mapping[str, int]:
        return _compute_unspent(guarantees, {}, besides)


class _BlocksItself(_WrongSum):
    """The unspent guarantee of the requesting namespace is not free either."""

    @staticmethod
    def compute(guarantees: Guarantees, reserved: Any, besides: str = "") -> Mapping[str, int]:  # noqa: ARG004  # as the product
        return _compute_unspent(guarantees, reserved)


class _AddsExcess(_WrongSum):
    """What a namespace has beyond its guarantee is subtracted from the guarantees of others."""

    @staticmethod
    def compute(guarantees: Guarantees, reserved: Any, besides: str = "") -> Mapping[str, int]:
        unspent = dict(_compute_unspent(guarantees, reserved, besides))
        lent = sum(
            max(0, amount - guarantees.amounts[namespace].get(name, 0))
            for namespace, used in guarantees.used.items()
            if namespace in guarantees.amounts
            for name, amount in used.items()
        )
        return {name: max(0, amount - lent) for name, amount in unspent.items()}


class _KeepsFormerMembers(GuaranteeRules):
    """A recount keeps the guarantees of namespaces that are no members any more."""

    def recount(self, ledger: Ledger, snapshot: UsageSnapshot) -> Ledger:
        after = super().recount(ledger, snapshot)
        amounts = {**ledger.guarantees.amounts, **after.guarantees.amounts}
        used = {**dict.fromkeys(amounts, NO_AMOUNTS), **after.guarantees.used}
        return replace(after, guarantees=create_guarantees(amounts, used))


class _KeepsFormerUse(GuaranteeRules):
    """A recount keeps what a former member used, for its return."""

    def recount(self, ledger: Ledger, snapshot: UsageSnapshot) -> Ledger:
        used = {**snapshot.used_by_namespace, **ledger.guarantees.used}
        left = {name: amounts for name, amounts in used.items() if name not in snapshot.used_by_namespace}
        after = super().recount(ledger, snapshot)
        kept = {**after.guarantees.used, **left}
        return replace(after, guarantees=create_guarantees(after.guarantees.amounts, kept))

    def guarantee(self, ledger: Ledger, amounts: Any, namespaces_hash: str) -> Ledger:
        before = getattr(self, "_before", {})
        after = super().guarantee(ledger, amounts, namespaces_hash)
        used = {name: before.get(name, each) for name, each in after.guarantees.used.items()}
        self._before = {**before, **ledger.guarantees.used}
        return replace(after, guarantees=create_guarantees(after.guarantees.amounts, used))


class _UsesOldCount(GuaranteeRules):
    """A recount keeps what an older count found for namespaces with a guarantee."""

    def recount(self, ledger: Ledger, snapshot: UsageSnapshot) -> Ledger:
        after, used = super().recount(ledger, snapshot), ledger.guarantees.used
        old = {name: used.get(name, amounts) for name, amounts in after.guarantees.used.items()}
        return replace(after, guarantees=create_guarantees(after.guarantees.amounts, old))


class _UsesOwnAlone(GuaranteeRules):
    """A replica without the guarantees ignores those of the ledger."""

    def reserve(self, ledger: Ledger, request: ReservationRequest) -> Ledger | None:
        own = replace(ledger, guarantees=create_guarantees(request.guarantees, ledger.guarantees.used))
        after = super().reserve(own, request)
        return after and replace(after, guarantees=ledger.guarantees)


class _IgnoresOwn(GuaranteeRules):
    """A replica with the guarantees waits for the leader to write them."""

    def reserve(self, ledger: Ledger, request: ReservationRequest) -> Ledger | None:
        return super().reserve(ledger, replace(request, guarantees={}))


@pytest.mark.parametrize("start", range(0, _HISTORIES, 100), ids=lambda start: f"from {start}")
def test_no_history_violates_an_invariant(start: int) -> None:
    for seed in range(start, start + examples(100)):
        GuaranteeWorld(GuaranteeRules(), seed).play()


@pytest.mark.parametrize(
    ("variant", "violation"),
    [
        pytest.param(_CountsTwice, "over", id="reservations of an owner count twice"),
        pytest.param(_ForgetsReservations, "refused", id="reservations of an owner are forgotten"),
        pytest.param(_BlocksItself, "refused", id="the own guarantee blocks itself"),
        pytest.param(_AddsExcess, "over", id="what one borrows is taken from the guarantees of others"),
        pytest.param(_KeepsFormerMembers, "member", id="a former member keeps its guarantee"),
        pytest.param(_KeepsFormerUse, "over", id="the use of a former member counts at its return"),
        pytest.param(_UsesOldCount, "refused", id="the use is that of an older count"),
        pytest.param(_UsesOwnAlone, "over", id="a replica without the guarantees ignores the ledger"),
        pytest.param(_IgnoresOwn, "over", id="a replica ignores guarantees that the ledger has not"),
    ],
)
def test_a_wrong_variant_violates_an_invariant(variant: type[GuaranteeRules], violation: str) -> None:
    check_variant(lambda seed: GuaranteeWorld(variant(), seed), violation)
