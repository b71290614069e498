"""Short builders of ledgers, requests and snapshots, and calls of transitions with an expected result."""

from collections.abc import Collection, Mapping
from typing import Any

from tallygate.accounting.amounts import Amounts
from tallygate.state.ledger.ledger import Ledger, Operation
from tallygate.state.ledger.recount import StaleSnapshot, UsageSnapshot, recount
from tallygate.state.ledger.reserve import (
    Deferred,
    Exceeded,
    Prerequisite,
    ReservationRequest,
    Reserved,
    reserve,
)

GPU = "nvidia.com/gpu"
IPS = "example.com/ip"
NAMES = frozenset({GPU, IPS})


def gpus(count: int) -> Amounts:
    """Return an amount of GPUs; for 0 it is empty, as the accounting returns it."""
    return Amounts({GPU: count} if count else {})


def create_request(
    uid: str = "u1", new: int = 1, old: int = 0, by: str = "n1", hard: int = 4, **more: Any
) -> ReservationRequest:
    """Return the request of a pod that has `old` GPUs and requests `new`."""
    kind = more.pop("kind", Operation.CREATE if old == 0 else Operation.UPDATE)
    namespace = more.pop("namespace", "team-a")
    return ReservationRequest(uid, namespace, uid, gpus(old), gpus(new), by, kind, gpus(hard), **more)


def empty_ledger(hard: int = 4, **more: Any) -> Ledger:
    """Return a ledger with nothing used and nothing reserved."""
    return Ledger(gpus(hard), **{"resources": NAMES, **more})


def expect_reserved(ledger: Ledger, request: ReservationRequest) -> Ledger:
    """Reserve, and return the ledger; fail the test if the request is not reserved."""
    result = reserve(ledger, request)
    assert isinstance(result, Reserved), result
    return result.ledger


def expect_exceeded(ledger: Ledger, request: ReservationRequest) -> Amounts:
    """Reserve, and return the excess; fail the test if the cap is not exceeded."""
    result = reserve(ledger, request)
    assert isinstance(result, Exceeded), result
    assert result.ledger is ledger
    return result.excess


def expect_deferred(ledger: Ledger, request: ReservationRequest) -> Prerequisite:
    """Reserve, and return the prerequisite; fail the test if the request is not deferred."""
    result = reserve(ledger, request)
    assert isinstance(result, Deferred), result
    assert result.ledger is ledger
    return result.prerequisite


def create_snapshot(
    revision: int, counted: Mapping[str, int], deleted: Collection[str] = (), names: frozenset[str] = NAMES, **more: Any
) -> UsageSnapshot:
    """Return the usage of pods with the given GPUs each, at a revision."""
    used_by_consumer = {uid: gpus(count) for uid, count in counted.items()}
    return UsageSnapshot(
        revision,
        more.get("ns_revision", 0),
        more.get("members", ""),
        names,
        used_by_consumer,
        gpus(sum(counted.values())),
        frozenset(deleted),
        served=more.get("served", ()),
        holders={("team-a", name): uid for name, uid in more.get("holders", {}).items()},
    )


def expect_recount(ledger: Ledger, snapshot: UsageSnapshot) -> Ledger:
    """Recount, and return the ledger; fail the test if the snapshot is stale."""
    after = recount(ledger, snapshot)
    assert not isinstance(after, StaleSnapshot), after
    return after
