"""Several processes' worth of callers at one ledger, over a store that fails at random: the cap holds all the same."""

import random
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from tests.state.attempts import GPU, Take, room
from tests.state.batched_ledgers.script import KEY, Happening, ScriptedStore, done, down, lost, nothing, pending
from webhook.state.batched_ledgers import BatchedLedgers
from webhook.state.ledger.ledger import Ledger
from webhook.state.ledger.reserve import release
from webhook.state.ports import StoreUnavailableError, TransitionResult

_ROOM = 60
_ASKED = 100


@dataclass(frozen=True)
class TakeBack:
    """The end of an attempt that does not know how it went."""

    uid: str

    def __call__(self, found: Ledger | None) -> TransitionResult[None]:
        """Withdraw."""
        assert found is not None
        ledger = release(found, self.uid, self.uid)
        return TransitionResult(None, None if ledger is found else ledger)

    def is_stored_in(self, _: Ledger) -> bool:
        """It leaves no mark."""
        return False


def land(store: ScriptedStore) -> None:
    """Let what was held up arrive."""
    while store.late:
        store.late.pop()()


def _faults(seed: int, kinds: Sequence[Happening]) -> Callable[[], Happening]:
    chance = random.Random(seed)  # noqa: S311  # it only has to be the same each time
    return lambda: chance.choice(kinds)


@pytest.mark.parametrize("seed", range(10))
def test_exactly_the_cap_is_granted_whatever_the_store_loses(seed: int) -> None:
    reading = _faults(seed, (nothing, nothing, nothing, down, land))
    writing = _faults(seed, (nothing, nothing, nothing, lost, done, pending, down, land))
    store = ScriptedStore(room(_ROOM), reads=iter(reading, None), writes=iter(writing, None))
    replicas = [BatchedLedgers(store, lambda: 0.0) for _ in range(3)]

    def create(each: int) -> bool | None:
        ledgers, uid = replicas[each % 3], f"u{each}"
        try:
            return ledgers.transact(KEY, Take(uid, by=uid), 1.0)
        except StoreUnavailableError:
            _until_it_answers(ledgers, uid)
            return None

    with ThreadPoolExecutor(12) as pool:
        taken = list(pool.map(create, range(_ASKED)))
    granted = {f"u{each}" for each, took in enumerate(taken) if took}
    unknown = {f"u{each}" for each, took in enumerate(taken) if took is None}
    rows = store.now.reservations.keys()
    assert store.now.compute_charged()[GPU] <= _ROOM
    assert granted <= rows <= granted | unknown
    assert False not in taken or len(granted) + len(unknown) >= _ROOM


def _until_it_answers(ledgers: BatchedLedgers, uid: str) -> None:
    while True:
        try:
            return ledgers.transact(KEY, TakeBack(uid), 1.0)
        except StoreUnavailableError:
            pass
