"""Rule 8's leader: which replica governs ledgers and keeps them, and what the others have in force.

Leases, as leaders are elected in Kubernetes (client-go tools/leaderelection, v1.36): whoever holds the one named
`KEEPER` keeps; each replica has one of its own beside it, and says in it which caps it has in force. Whether a lease
has lapsed each replica judges by its own clock, from when it saw it renewed; clocks are never compared.

Nothing rests on there being one leader: two that both keep a ledger only do the same twice, and where leases cannot be
had, everybody keeps.
"""

import hashlib
import math
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import Protocol

from webhook.state.ports import Lease, LeaseStore

KEEPER = "tallygate-keeper"
"""The name of the lease that makes the leader."""

REPLICA = "tallygate-replica-"
"""What the names of the replicas' own leases begin with."""

SECONDS = 15.0
"""For which a renewal is good, as in Kubernetes' own components (client-go, LeaseDuration)."""

PAUSE = 3.0
"""Between two rounds."""

_RENEWED_SECONDS = 10.0  # after so long without one, the leader takes itself for none (client-go, RenewDeadline)
_LONGEST_SECONDS = 60.0  # that a lease is believed, whatever somebody has written into it
_BURIED_SECONDS = 600.0  # a replica that has not come back by then is forgotten


class Role(Protocol):
    """What a keeper goes by."""

    def leads(self) -> bool:
        """Whether this replica is to keep ledgers."""
        ...

    def loaded_since(self, cap: str) -> float | None:
        """Since when, by the monotonic clock, every replica has had a cap in force, by its key; None: not yet."""
        ...

    def departures(self) -> int:
        """How many replicas were seen to end, or to be seen no more: what they promised nobody else may know of."""
        ...


class Alone:
    """The role of who has no others beside it."""

    def leads(self) -> bool:
        """Who else?"""
        return True

    def loaded_since(self, _: str) -> float | None:
        """Since ever: nobody was let in under other policies."""
        return -math.inf

    def departures(self) -> int:
        """There is nobody to go."""
        return 0


@dataclass(frozen=True, slots=True)
class _Seen:
    """A lease, and since when it is known to be as it is."""

    lease: Lease
    since: float

    def is_live(self, now: float) -> bool:
        return bool(self.lease.holder) and now < self.since + min(self.lease.seconds, _LONGEST_SECONDS)


class Leading:
    """One replica among others. `round` and `leave` are for one thread; the rest any thread may ask.

    `identity` is this replica's, as no other has it; `caps` gives the keys of the caps in force here, `monotonic` is in
    seconds.
    """

    def __init__(
        self,
        store: LeaseStore,
        identity: str,
        caps: Callable[[], Collection[str]],
        monotonic: Callable[[], float],
    ) -> None:
        self._store = store
        self._identity = identity
        self._name = REPLICA + mark(identity)
        self._caps = caps
        self._monotonic = monotonic
        self._seen: dict[str, _Seen] = {}
        self._loaded: dict[str, float] = {}
        self._live: frozenset[str] = frozenset()
        self._departures = 0
        self._answered = monotonic()
        self._leads_until = -1.0

    def leads(self) -> bool:
        """Whether this replica is to keep ledgers: it holds the lease, or leases cannot be had."""
        now = self._monotonic()
        return now < self._leads_until or now >= self._answered + SECONDS

    def loaded_since(self, cap: str) -> float | None:
        """Since when, by this clock, all replicas that are known to live have had a cap in force; None: not yet.

        Where leases cannot be had, others are not known, and this one alone counts.
        """
        if self._monotonic() >= self._answered + SECONDS:
            return self._answered
        return self._loaded.get(cap)

    def departures(self) -> int:
        """How many other replicas were seen to end, or to be seen no more."""
        return self._departures

    def round(self) -> None:
        """See how the others are, say how this one is, and claim or renew the leader's lease. Every `PAUSE` seconds.

        Raises:
            BusyError, StoreUnavailableError: leases cannot be had; the next round may go better.
        """
        caps, begun = self._caps(), self._monotonic()
        self._observe(self._store.all(), begun)
        own = Lease(self._name, self._identity, SECONDS, caps=frozenset(map(mark, caps)))
        self._renew(self._seen.get(self._name), own)
        self._claim(self._seen.get(KEEPER), begun)
        self._compare(caps, begun)
        self._miss(begun)
        self._bury(begun)
        self._answered = begun

    def leave(self) -> None:
        """Let others have at once what is held here.

        Raises:
            BusyError, StoreUnavailableError: it lapses then.
        """
        self._observe(self._store.all(), self._monotonic())
        keeper, own = self._seen.get(KEEPER), self._seen.get(self._name)
        self._leads_until = -1.0
        if keeper is not None and keeper.lease.holder == self._identity:
            self._store.write(replace(keeper.lease, holder="", seconds=1.0))
        if own is not None:
            self._store.remove(own.lease)

    def _observe(self, leases: Iterable[Lease], begun: float) -> None:
        before, self._seen = self._seen, {}
        for lease in leases:
            known = before.get(lease.name)
            same = known is not None and known.lease.version == lease.version
            self._seen[lease.name] = known if known is not None and same else _Seen(lease, begun)

    def _renew(self, found: _Seen | None, lease: Lease) -> bool:
        """Write a lease of this replica's in the place of what was found; whether it is stored."""
        if found is None:
            return self._store.write(lease)
        before = found.lease
        if before.holder == lease.holder:
            kept = replace(lease, version=before.version, changes=before.changes, acquired=before.acquired)
            return self._store.write(kept)
        return self._store.write(replace(lease, version=before.version, changes=before.changes + 1))

    def _claim(self, found: _Seen | None, begun: float) -> None:
        """Renew the leader's lease, or take it when it has lapsed."""
        if found is not None and found.lease.holder != self._identity and found.is_live(begun):
            self._leads_until = -1.0
            return
        sent = self._monotonic()
        if self._renew(found, Lease(KEEPER, self._identity, SECONDS)):
            self._leads_until = sent + _RENEWED_SECONDS

    def _compare(self, caps: Collection[str], begun: float) -> None:
        """What every live replica has in force: it had before `begun`, since it said so before."""
        others = [each.lease.caps for each in self._others(begun) if each.lease.caps is not None]
        everywhere = [cap for cap in caps if all(mark(cap) in there for there in others)]
        self._loaded = {cap: self._loaded.get(cap, begun) for cap in everywhere}

    def _others(self, begun: float) -> list[_Seen]:
        """The leases of the other replicas that live."""
        return [
            each
            for each in self._seen.values()
            if each.lease.name.startswith(REPLICA) and each.lease.holder != self._identity and each.is_live(begun)
        ]

    def _miss(self, begun: float) -> None:
        """Count those that lived at the last round and live no more. One that began anew has another name."""
        live = frozenset(each.lease.name for each in self._others(begun))
        self._departures += len(self._live - live)
        self._live = live

    def _bury(self, begun: float) -> None:
        """The leader takes leases away of which nobody has heard for long."""
        if not self.leads():
            return
        for each in list(self._seen.values()):
            is_own = each.lease.holder == self._identity
            if each.lease.name.startswith(REPLICA) and not is_own and begun > each.since + _BURIED_SECONDS:
                self._store.remove(each.lease)


def mark(cap: str) -> str:
    """What stands for a cap's key in a lease: short, since all of them must fit into one annotation."""
    return hashlib.sha256(cap.encode()).hexdigest()[:12]
