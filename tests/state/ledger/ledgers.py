"""Ledgers, asks and views as short as a table needs them."""

from collections.abc import Collection, Mapping
from typing import Any

from webhook.accounting.amounts import Amounts
from webhook.state.ledger.ledger import Ledger, Operation
from webhook.state.ledger.recount import StaleSnapshot, UsageSnapshot
from webhook.state.ledger.recount import recount as product_recount
from webhook.state.ledger.reserve import Deferred, Exceeded, Prerequisite, ReservationRequest, Reserved
from webhook.state.ledger.reserve import reserve as product_reserve

GPU = "nvidia.com/gpu"
IPS = "example.com/ip"
NAMES = frozenset({GPU, IPS})


def gpus(count: int) -> Amounts:
    """That many, and an empty mapping for none, as the accounting gives it."""
    return Amounts({GPU: count} if count else {})


def wants(
    uid: str = "u1", new: int = 1, old: int = 0, by: str = "n1", hard: int = 4, **more: Any
) -> ReservationRequest:
    """A pod that asks for GPUs."""
    kind = more.pop("kind", Operation.CREATE if old == 0 else Operation.UPDATE)
    namespace = more.pop("namespace", "team-a")
    return ReservationRequest(uid, namespace, uid, gpus(old), gpus(new), by, kind, gpus(hard), **more)


def empty(hard: int = 4, **more: Any) -> Ledger:
    """Nothing held, nothing promised."""
    return Ledger(gpus(hard), **{"resources": NAMES, **more})


def granted(ledger: Ledger, wanted: ReservationRequest) -> Ledger:
    """The ledger after a grant that must be given."""
    answer = product_reserve(ledger, wanted)
    assert isinstance(answer, Reserved), answer
    return answer.ledger


def refused(ledger: Ledger, wanted: ReservationRequest) -> Amounts:
    """The excess of a refusal that must be given."""
    answer = product_reserve(ledger, wanted)
    assert isinstance(answer, Exceeded), answer
    assert answer.ledger is ledger
    return answer.excess


def deferred(ledger: Ledger, wanted: ReservationRequest) -> Prerequisite:
    """What must happen first, where something must."""
    answer = product_reserve(ledger, wanted)
    assert isinstance(answer, Deferred), answer
    assert answer.ledger is ledger
    return answer.prerequisite


def view(
    revision: int, counted: Mapping[str, int], gone: Collection[str] = (), names: frozenset[str] = NAMES, **more: Any
) -> UsageSnapshot:
    """Pods with that many GPUs each, at that revision."""
    held = {uid: gpus(count) for uid, count in counted.items()}
    return UsageSnapshot(
        revision,
        more.get("ns_revision", 0),
        more.get("members", ""),
        names,
        held,
        gpus(sum(counted.values())),
        frozenset(gone),
    )


def recounted(ledger: Ledger, seen: UsageSnapshot) -> Ledger:
    """The ledger after a recount that must be possible."""
    after = product_recount(ledger, seen)
    assert not isinstance(after, StaleSnapshot), after
    return after
