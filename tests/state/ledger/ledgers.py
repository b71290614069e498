"""Ledgers, asks and views as short as a table needs them."""

from collections.abc import Collection, Mapping
from typing import Any

from webhook.accounting.amounts import Amounts
from webhook.state.ledger import Behind, Deferred, First, Granted, Kind, Ledger, Refused, Reservation, View
from webhook.state.ledger import recount as product_recount
from webhook.state.ledger import reserve as product_reserve

GPU = "nvidia.com/gpu"
IPS = "example.com/ip"
NAMES = frozenset({GPU, IPS})


def gpus(count: int) -> Amounts:
    """That many, and an empty mapping for none, as the accounting gives it."""
    return Amounts({GPU: count} if count else {})


def wants(uid: str = "u1", new: int = 1, old: int = 0, by: str = "n1", hard: int = 4, **more: Any) -> Reservation:
    """A pod that asks for GPUs."""
    kind = more.pop("kind", Kind.CREATE if old == 0 else Kind.CHANGE)
    namespace = more.pop("namespace", "team-a")
    return Reservation(uid, namespace, uid, gpus(old), gpus(new), by, kind, gpus(hard), **more)


def empty(hard: int = 4, **more: Any) -> Ledger:
    """Nothing held, nothing promised."""
    return Ledger(gpus(hard), **{"counts": NAMES, **more})


def granted(ledger: Ledger, wanted: Reservation) -> Ledger:
    """The ledger after a grant that must be given."""
    answer = product_reserve(ledger, wanted)
    assert isinstance(answer, Granted), answer
    return answer.ledger


def refused(ledger: Ledger, wanted: Reservation) -> Amounts:
    """The excess of a refusal that must be given."""
    answer = product_reserve(ledger, wanted)
    assert isinstance(answer, Refused), answer
    assert answer.ledger is ledger
    return answer.excess


def deferred(ledger: Ledger, wanted: Reservation) -> First:
    """What must happen first, where something must."""
    answer = product_reserve(ledger, wanted)
    assert isinstance(answer, Deferred), answer
    assert answer.ledger is ledger
    return answer.first


def view(
    revision: int, counted: Mapping[str, int], gone: Collection[str] = (), names: frozenset[str] = NAMES, **more: Any
) -> View:
    """Pods with that many GPUs each, at that revision."""
    held = {uid: gpus(count) for uid, count in counted.items()}
    return View(
        revision,
        more.get("ns_revision", 0),
        more.get("members", ""),
        names,
        held,
        gpus(sum(counted.values())),
        frozenset(gone),
    )


def recounted(ledger: Ledger, seen: View) -> Ledger:
    """The ledger after a recount that must be possible."""
    after = product_recount(ledger, seen)
    assert not isinstance(after, Behind), after
    return after
