"""Random histories of workloads with the transitions of the product; each wrong variant violates an invariant."""

import pytest
from msgspec.structs import replace

from tallygate.accounting.amounts import NO_AMOUNTS
from tallygate.accounting.charge import ConsumerKind
from tallygate.state.ledger.expire import LiveRead, ReservationAges
from tallygate.state.ledger.ledger import Ledger
from tallygate.state.ledger.recount import UsageSnapshot
from tallygate.state.ledger.reserve import ReservationRequest, WorkloadTerms
from tests.effort import examples
from tests.state.ledger.gang_world import GangWorld, drop_reservation
from tests.state.ledger.ledger_history import Rules, check_variant

_HISTORIES = 1000


class _ForeignTakes(Rules):
    """Any pod takes over amounts, of whichever workload."""

    def reserve(self, ledger: Ledger, request: ReservationRequest) -> Ledger | None:
        gangs = tuple(uid for uid, each in ledger.reservations.items() if each.kind is ConsumerKind.WORKLOAD)
        if not request.workload.kind:
            request = replace(request, workload=WorkloadTerms(owner_uids=gangs))
        return super().reserve(ledger, request)


class _TakesUnreserved(Rules):
    """A pod that takes over an amount gets no reservation of its own."""

    def reserve(self, ledger: Ledger, request: ReservationRequest) -> Ledger | None:
        after = super().reserve(ledger, request)
        if after is None or not after.reservations[request.uid].workload:
            return after
        return drop_reservation(after, request.uid)


class _TakesTwice(Rules):
    """Another attempt of a pod takes over its amount again."""

    def reserve(self, ledger: Ledger, request: ReservationRequest) -> Ledger | None:
        after, earlier = super().reserve(ledger, request), ledger.reservations.get(request.uid)
        gang = after.reservations.get(earlier.workload) if after is not None and earlier is not None else None
        if after is None or earlier is None or gang is None:
            return after
        return after.with_reservation(earlier.workload, replace(gang, counted=gang.counted + earlier.taken))


class _TakesAgain(Rules):
    """An attempt that arrives after its pod is counted takes over an amount again."""

    def recount(self, ledger: Ledger, snapshot: UsageSnapshot) -> Ledger:
        after = super().recount(ledger, snapshot)
        for uid, each in after.reservations.items():
            if each.counted_pods:
                after = after.with_reservation(uid, replace(each, counted_pods=frozenset()))
        return after


class _CountedFalls(Rules):
    """Another attempt of a workload reserves again what its pods took over."""

    def reserve(self, ledger: Ledger, request: ReservationRequest) -> Ledger | None:
        after = super().reserve(ledger, request)
        if after is None or not request.workload.kind:
            return after
        return after.with_reservation(request.uid, replace(after.reservations[request.uid], counted=NO_AMOUNTS))


class _HalfBack(Rules):
    """A pod that was never stored gives nothing back, nor does a released attempt."""

    def release(self, ledger: Ledger, uid: str, attempt: str) -> Ledger:
        after = super().release(ledger, uid, attempt)
        return after if after is ledger else drop_reservation(ledger, uid)

    def expire(self, ledger: Ledger, ages: ReservationAges, read: LiveRead) -> Ledger:
        after = super().expire(ledger, ages, read)
        return after if after is ledger else drop_reservation(ledger, read.uid)


class _KeptForEver(Rules):
    """The reservation of a workload never expires."""

    def expire(self, ledger: Ledger, ages: ReservationAges, read: LiveRead) -> Ledger:
        reservation = ledger.reservations.get(read.uid)
        is_gang = reservation is not None and reservation.kind is ConsumerKind.WORKLOAD
        return ledger if is_gang else super().expire(ledger, ages, read)


class _ExpiresAtOnce(Rules):
    """The reservation of a workload that may still start pods expires like any other."""

    def expire(self, ledger: Ledger, ages: ReservationAges, read: LiveRead) -> Ledger:
        return super().expire(ledger, ages, LiveRead(read.uid, read.started_at, read.revision))


class _EndsInFlight(Rules):
    """A recount ends a reservation of which nothing is left, although a pod may give its amount back."""

    def recount(self, ledger: Ledger, snapshot: UsageSnapshot) -> Ledger:
        after = super().recount(ledger, snapshot)
        for uid, each in after.reservations.items():
            if each.kind is ConsumerKind.WORKLOAD and not each.compute_reserved():
                after = after.with_reservation(uid, None)
        return after


@pytest.mark.parametrize("start", range(0, _HISTORIES, 100), ids=lambda start: f"from {start}")
def test_no_history_violates_an_invariant(start: int) -> None:
    for seed in range(start, start + examples(100)):
        GangWorld(Rules(), seed).play()


@pytest.mark.parametrize(
    ("variant", "violation"),
    [
        pytest.param(_ForeignTakes, "half", id="a pod of another owner takes over an amount"),
        pytest.param(_TakesUnreserved, "over", id="a pod takes over an amount without a reservation of its own"),
        pytest.param(_TakesTwice, "half", id="a second attempt takes over an amount again"),
        pytest.param(_TakesAgain, "half", id="an attempt takes over an amount although its pod is counted"),
        pytest.param(_CountedFalls, "more", id="a second attempt of a workload reserves again"),
        pytest.param(_HalfBack, "half", id="nothing is given back"),
        pytest.param(_KeptForEver, "kept", id="a reservation is kept for ever when no pod comes"),
        pytest.param(_ExpiresAtOnce, "half", id="a reservation expires before the pods could come"),
        pytest.param(_EndsInFlight, "half", id="a reservation ends before a pod gives its amount back"),
    ],
)
def test_a_wrong_variant_violates_an_invariant(variant: type[Rules], violation: str) -> None:
    check_variant(lambda seed: GangWorld(variant(), seed), violation)
