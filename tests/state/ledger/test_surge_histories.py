"""Random histories of rollouts with the transitions of the product; each wrong variant violates an invariant."""

import pytest
from msgspec.structs import replace

from tallygate.state.ledger.ledger import Ledger
from tallygate.state.ledger.recount import UsageSnapshot
from tallygate.state.ledger.reserve import ReservationRequest
from tallygate.state.ledger.surges import NO_TERMS
from tests.effort import examples
from tests.state.ledger.ledger_history import Rules, check_variant
from tests.state.ledger.surge_world import HARD, OpenRules, SurgeWorld

_HISTORIES = 600


class _AnyController(OpenRules):
    """The surge is open to pods of any controller."""


class _NeverEnds(Rules):
    """No surge is over."""

    def reserve(self, ledger: Ledger, request: ReservationRequest) -> Ledger | None:
        if request.surge is not NO_TERMS:
            request = replace(request, surge=replace(request.surge, seconds=10**9))
        return super().reserve(ledger, request)


class _Renews(Rules):
    """Every write of a pod that surges begins the time again."""

    def reserve(self, ledger: Ledger, request: ReservationRequest) -> Ledger | None:
        after = super().reserve(ledger, request)
        if after is None or after.surge.since is None or request.surge is NO_TERMS:
            return after
        return replace(after, surge=replace(after.surge, since=request.surge.now))


class _RecountForgets(Rules):
    """A recount forgets when the surge began."""

    def recount(self, ledger: Ledger, snapshot: UsageSnapshot) -> Ledger:
        after = super().recount(ledger, snapshot)
        return replace(after, surge=replace(after.surge, since=None))


class _Twice(Rules):
    """The guard adds the surge of the policy to that of the ledger."""

    def reserve(self, ledger: Ledger, request: ReservationRequest) -> Ledger | None:
        if request.surge is NO_TERMS:
            return super().reserve(ledger, request)
        both = replace(request.surge, amounts=request.surge.amounts + ledger.surge.amounts)
        doubled = replace(ledger, surge=replace(ledger.surge, amounts=ledger.surge.amounts + ledger.surge.amounts))
        after = super().reserve(doubled, replace(request, surge=both))
        return after and replace(after, surge=replace(after.surge, amounts=ledger.surge.amounts))


class _IgnoresSmaller(Rules):
    """The surge of the replica's own policy counts, though that of the ledger is smaller."""

    def reserve(self, ledger: Ledger, request: ReservationRequest) -> Ledger | None:
        if request.surge is NO_TERMS:
            return super().reserve(ledger, request)
        own = replace(ledger, surge=replace(ledger.surge, amounts=request.surge.amounts))
        after = super().reserve(own, request)
        return after and replace(after, surge=replace(after.surge, amounts=ledger.surge.amounts))


class _KeepsBegin(Rules):
    """A surge that has ended keeps its time."""

    def reserve(self, ledger: Ledger, request: ReservationRequest) -> Ledger | None:
        after, since, terms = super().reserve(ledger, request), ledger.surge.since, request.surge
        if after is None or since is None:
            return after
        charged = sum(after.compute_charged().values())
        if charged > HARD and terms is not NO_TERMS and terms.now - since >= terms.seconds:
            return None
        return replace(after, surge=replace(after.surge, since=since))

    def recount(self, ledger: Ledger, snapshot: UsageSnapshot) -> Ledger:
        after = super().recount(ledger, snapshot)
        return replace(after, surge=replace(after.surge, since=ledger.surge.since))


@pytest.mark.parametrize("start", range(0, _HISTORIES, 100), ids=lambda start: f"from {start}")
def test_no_history_violates_an_invariant(start: int) -> None:
    for seed in range(start, start + examples(100)):
        SurgeWorld(Rules(), seed).play()


@pytest.mark.parametrize(
    ("variant", "violation"),
    [
        pytest.param(_AnyController, "shared", id="the surge is open to pods of any controller"),
        pytest.param(_NeverEnds, "late", id="a surge never ends"),
        pytest.param(_Renews, "late", id="a surge renews itself at each write"),
        pytest.param(_RecountForgets, "late", id="a recount forgets when the surge began"),
        pytest.param(_Twice, "over", id="the guard adds the surge twice"),
        pytest.param(_IgnoresSmaller, "over", id="the smaller surge of the ledger is ignored"),
        pytest.param(_KeepsBegin, "stuck", id="a surge that has ended keeps its time"),
    ],
)
def test_a_wrong_variant_violates_an_invariant(variant: type[Rules], violation: str) -> None:
    check_variant(lambda seed: SurgeWorld(variant(), seed), violation)
