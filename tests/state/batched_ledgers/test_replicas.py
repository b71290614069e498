"""Callers of several processes on one ledger, over a store that fails at random: the cap is never exceeded."""

import random
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from tallygate.state.batched_ledgers import BatchedLedgers
from tallygate.state.ledger.ledger import Ledger
from tallygate.state.ledger.reserve import release
from tallygate.state.ports import StoreUnavailableError, TransitionResult
from tests.state.batched_ledgers.scripted_store import (
    KEY,
    Effect,
    ScriptedStore,
    delay_request,
    do_nothing,
    fail_unavailable,
    lose_request,
    lose_response,
)
from tests.state.transitions import GPU, Take, free_ledger

_LIMIT = 60
_REQUESTS = 100


@dataclass(frozen=True)
class Release:
    """The release after an attempt with an unknown outcome."""

    uid: str

    def __call__(self, found: Ledger | None) -> TransitionResult[None]:
        """Release the reservation."""
        assert found is not None
        ledger = release(found, self.uid, self.uid)
        return TransitionResult(None, None if ledger is found else ledger)

    def is_stored_in(self, _: Ledger) -> bool:
        """Return False: a release leaves no mark."""
        return False


def deliver(store: ScriptedStore) -> None:
    """Deliver the delayed requests."""
    while store.delayed:
        store.delayed.pop()()


def _draw_effects(seed: int, kinds: Sequence[Effect]) -> Callable[[], Effect]:
    rng = random.Random(seed)  # noqa: S311  # a reproducible schedule
    return lambda: rng.choice(kinds)


@pytest.mark.parametrize("seed", range(10))
def test_callers_reserve_exactly_the_cap_whatever_the_store_loses(seed: int) -> None:
    read_effects = _draw_effects(seed, (do_nothing, do_nothing, do_nothing, fail_unavailable, deliver))
    write_effects = _draw_effects(
        seed,
        (do_nothing, do_nothing, do_nothing, lose_request, lose_response, delay_request, fail_unavailable, deliver),
    )
    store = ScriptedStore(free_ledger(_LIMIT), reads=iter(read_effects, None), writes=iter(write_effects, None))
    replicas = [BatchedLedgers(store, lambda: 0.0) for _ in range(3)]

    def create(each: int) -> bool | None:
        ledgers, uid = replicas[each % 3], f"u{each}"
        try:
            return ledgers.transact(KEY, Take(uid, by=uid), 1.0)
        except StoreUnavailableError:
            _release_with_retries(ledgers, uid)
            return None

    with ThreadPoolExecutor(12) as pool:
        taken = list(pool.map(create, range(_REQUESTS)))
    reserved = {f"u{each}" for each, took in enumerate(taken) if took}
    unknown = {f"u{each}" for each, took in enumerate(taken) if took is None}
    uids = store.ledger.reservations.keys()
    assert store.ledger.compute_charged()[GPU] <= _LIMIT
    assert reserved <= uids <= reserved | unknown
    assert False not in taken or len(reserved) + len(unknown) >= _LIMIT


def _release_with_retries(ledgers: BatchedLedgers, uid: str) -> None:
    while True:
        try:
            return ledgers.transact(KEY, Release(uid), 1.0)
        except StoreUnavailableError:
            pass
