"""The ledgers of caps that the record lacks: those that are active count first again (rule 7).

A cap that no replica has any more leaves the record, and its ledgers remain. While the cap is away, nothing is charged
under it. So when it is restored, they are not trusted before a count that has everything that was stored meanwhile.
"""

from collections.abc import Callable, Collection

import msgspec

from tallygate.admission.cap_index import ActiveCap, CapIndex
from tallygate.cluster.usage_lister import UsageLister
from tallygate.gate.cap_activation import CapActivation
from tallygate.state.ledger.expire import count_first
from tallygate.state.ledger.ledger import Activation, Ledger
from tallygate.state.ports import LedgerKey, Ledgers, TransitionResult

_RUN_SECONDS = 2.0  # for one run: the leader renews its lease between two of them
_TRANSACTION_SECONDS = 1.0


class CountFirstTransition(msgspec.Struct, frozen=True):
    """A transition that lets an active ledger count first, or one that is lost if the cap is new."""

    initializer: str
    activation: Activation

    def __call__(self, stored: Ledger | None) -> TransitionResult[None]:
        """Return the ledger that counts first; a missing one becomes one by itself (rule 7)."""
        if stored is None:
            return TransitionResult(None)
        ledger = count_first(stored, self.initializer, self.activation)
        return TransitionResult(None, None if ledger is stored else ledger)

    def is_stored_in(self, ledger: Ledger) -> bool:
        """Return whether the ledger has the nonce of this write."""
        return ledger.initializer == self.initializer


class RestoredCaps:
    """The caps that the leader is about to record, for one thread.

    `caps` returns the active caps. The former ledgers of a cap are those of its members when the record was first found
    without the cap; each is read once, since only a record makes it active later. What joins later is counted again, or
    has no past (rules 5 and 7). `monotonic` is in seconds, and `nonce` returns one for each write.
    """

    def __init__(  # noqa: PLR0913  # ports, each by its name
        self,
        *,
        caps: Callable[[], CapIndex],
        usage_lister: UsageLister,
        ledgers: Ledgers,
        activation: CapActivation,
        nonce: Callable[[], str],
        monotonic: Callable[[], float],
    ) -> None:
        self._caps = caps
        self._usage_lister = usage_lister
        self._ledgers = ledgers
        self._activation = activation
        self._nonce = nonce
        self._monotonic = monotonic
        self._former: dict[str, set[LedgerKey]] = {}
        """By the key of a cap, its former ledgers that are not read yet."""

    def prepare(self, keys: Collection[str]) -> Collection[str]:
        """Let the former ledgers of caps that are active count first; return the caps without any.

        `keys` are all caps, by their keys, that the record lacks: none, if another replica may have led since the last
        call. At most two seconds are spent; the next call goes on.

        Raises:
            RetryLaterError, StoreUnavailableError: if the record or a ledger is unavailable.
        """
        self._former = {policy_key: former for policy_key, former in self._former.items() if policy_key in keys}
        end = self._monotonic() + _RUN_SECONDS
        caps = {cap.policy_key: cap for cap in self._caps().list_caps()}
        return [key for key in sorted(keys) if key in caps and self._count_first(caps[key], end)]

    def _count_first(self, cap: ActiveCap, end: float) -> bool:
        """Write the former ledgers one by one until `end`; return whether all are done."""
        policy_key = cap.policy_key
        if policy_key not in self._former:
            ledgers = self._usage_lister.list_ledger_keys(cap)
            if ledgers is None:
                return False
            self._former[policy_key] = set(ledgers)
        former = self._former[policy_key]
        if not former:
            return True
        activation = Activation(self._activation.is_new(policy_key), self._activation.estimate_time(policy_key))
        for key in sorted(former, key=msgspec.structs.astuple):
            now = self._monotonic()
            if now >= end:
                return False
            self._ledgers.transact(key, CountFirstTransition(self._nonce(), activation), now + _TRANSACTION_SECONDS)
            former.discard(key)
        return True
