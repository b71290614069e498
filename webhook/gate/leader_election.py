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

LEADER_LEASE = "tallygate-keeper"
"""The name of the lease that makes the leader."""

REPLICA_LEASE_PREFIX = "tallygate-replica-"
"""What the names of the replicas' own leases begin with."""

LEASE_DURATION_SECONDS = 15.0
"""For which a renewal is good, as in Kubernetes' own components (client-go, LeaseDuration)."""

RETRY_PERIOD_SECONDS = 3.0
"""Between two rounds."""

_RENEW_DEADLINE_SECONDS = 10.0  # after so long without one, the leader takes itself for none (client-go, RenewDeadline)
_MAX_LEASE_SECONDS = 60.0  # that a lease is believed, whatever somebody has written into it
_LEASE_RETENTION_SECONDS = 600.0  # a replica that has not come back by then is forgotten


class Leadership(Protocol):
    """What a keeper goes by."""

    def is_leader(self) -> bool:
        """Whether this replica is to keep ledgers."""
        ...

    def loaded_everywhere_since(self, cap: str) -> float | None:
        """Since when, by the monotonic clock, every replica has had a cap in force, by its key; None: not yet."""
        ...

    def count_lost_replicas(self) -> int:
        """How many replicas were seen to end, or to be seen no more: what they promised nobody else may know of."""
        ...


class Standalone:
    """The role of who has no others beside it."""

    def is_leader(self) -> bool:
        """Who else?"""
        return True

    def loaded_everywhere_since(self, _: str) -> float | None:
        """Since ever: nobody was let in under other policies."""
        return -math.inf

    def count_lost_replicas(self) -> int:
        """There is nobody to go."""
        return 0


@dataclass(frozen=True, slots=True)
class _ObservedLease:
    """A lease, and since when it is known to be as it is."""

    lease: Lease
    since: float

    def is_live(self, now: float) -> bool:
        return bool(self.lease.holder) and now < self.since + min(self.lease.duration_seconds, _MAX_LEASE_SECONDS)


class LeaderElector:
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
        self._lease_name = REPLICA_LEASE_PREFIX + hash_cap_key(identity)
        self._caps = caps
        self._monotonic = monotonic
        self._observed: dict[str, _ObservedLease] = {}
        self._loaded_since: dict[str, float] = {}
        self._live_replicas: frozenset[str] = frozenset()
        self._lost_replicas = 0
        self._last_contact = monotonic()
        self._leader_until = -1.0

    def is_leader(self) -> bool:
        """Whether this replica is to keep ledgers: it holds the lease, or leases cannot be had."""
        now = self._monotonic()
        return now < self._leader_until or now >= self._last_contact + LEASE_DURATION_SECONDS

    def loaded_everywhere_since(self, cap: str) -> float | None:
        """Since when, by this clock, all replicas that are known to live have had a cap in force; None: not yet.

        Where leases cannot be had, others are not known, and this one alone counts.
        """
        if self._monotonic() >= self._last_contact + LEASE_DURATION_SECONDS:
            return self._last_contact
        return self._loaded_since.get(cap)

    def count_lost_replicas(self) -> int:
        """How many other replicas were seen to end, or to be seen no more."""
        return self._lost_replicas

    def run_once(self) -> None:
        """See how the others are, say how this one is, and claim or renew the leader's lease. Every `PAUSE` seconds.

        Raises:
            BusyError, StoreUnavailableError: leases cannot be had; the next round may go better.
        """
        caps, started_at = self._caps(), self._monotonic()
        self._observe(self._store.list_leases(), started_at)
        own = Lease(self._lease_name, self._identity, LEASE_DURATION_SECONDS, caps=frozenset(map(hash_cap_key, caps)))
        self._renew(self._observed.get(self._lease_name), own)
        self._acquire_or_renew(self._observed.get(LEADER_LEASE), started_at)
        self._update_loaded(caps, started_at)
        self._count_lost(started_at)
        self._remove_expired(started_at)
        self._last_contact = started_at

    def release(self) -> None:
        """Let others have at once what is held here.

        Raises:
            BusyError, StoreUnavailableError: it lapses then.
        """
        self._observe(self._store.list_leases(), self._monotonic())
        leader, own = self._observed.get(LEADER_LEASE), self._observed.get(self._lease_name)
        self._leader_until = -1.0
        if leader is not None and leader.lease.holder == self._identity:
            self._store.write(replace(leader.lease, holder="", duration_seconds=1.0))
        if own is not None:
            self._store.remove(own.lease)

    def _observe(self, leases: Iterable[Lease], started_at: float) -> None:
        before, self._observed = self._observed, {}
        for lease in leases:
            previous = before.get(lease.name)
            is_unchanged = previous is not None and previous.lease.version == lease.version
            self._observed[lease.name] = (
                previous if previous is not None and is_unchanged else _ObservedLease(lease, started_at)
            )

    def _renew(self, observed: _ObservedLease | None, lease: Lease) -> bool:
        """Write a lease of this replica's in the place of what was found; whether it is stored."""
        if observed is None:
            return self._store.write(lease)
        before = observed.lease
        if before.holder == lease.holder:
            renewed = replace(
                lease, version=before.version, transitions=before.transitions, acquire_time=before.acquire_time
            )
            return self._store.write(renewed)
        return self._store.write(replace(lease, version=before.version, transitions=before.transitions + 1))

    def _acquire_or_renew(self, observed: _ObservedLease | None, started_at: float) -> None:
        """Renew the leader's lease, or take it when it has lapsed."""
        if observed is not None and observed.lease.holder != self._identity and observed.is_live(started_at):
            self._leader_until = -1.0
            return
        sent_at = self._monotonic()
        if self._renew(observed, Lease(LEADER_LEASE, self._identity, LEASE_DURATION_SECONDS)):
            self._leader_until = sent_at + _RENEW_DEADLINE_SECONDS

    def _update_loaded(self, caps: Collection[str], started_at: float) -> None:
        """What every live replica has in force: it had before `begun`, since it said so before."""
        other_caps = [each.lease.caps for each in self._list_other_replicas(started_at) if each.lease.caps is not None]
        loaded = [cap for cap in caps if all(hash_cap_key(cap) in loaded_caps for loaded_caps in other_caps)]
        self._loaded_since = {cap: self._loaded_since.get(cap, started_at) for cap in loaded}

    def _list_other_replicas(self, started_at: float) -> list[_ObservedLease]:
        """The leases of the other replicas that live."""
        return [
            observed
            for observed in self._observed.values()
            if observed.lease.name.startswith(REPLICA_LEASE_PREFIX)
            and observed.lease.holder != self._identity
            and observed.is_live(started_at)
        ]

    def _count_lost(self, started_at: float) -> None:
        """Count those that lived at the last round and live no more. One that began anew has another name."""
        live = frozenset(each.lease.name for each in self._list_other_replicas(started_at))
        self._lost_replicas += len(self._live_replicas - live)
        self._live_replicas = live

    def _remove_expired(self, started_at: float) -> None:
        """The leader takes leases away of which nobody has heard for long."""
        if not self.is_leader():
            return
        for observed in list(self._observed.values()):
            is_own = observed.lease.holder == self._identity
            if (
                observed.lease.name.startswith(REPLICA_LEASE_PREFIX)
                and not is_own
                and started_at > observed.since + _LEASE_RETENTION_SECONDS
            ):
                self._store.remove(observed.lease)


def hash_cap_key(cap: str) -> str:
    """What stands for a cap's key in a lease: short, since all of them must fit into one annotation."""
    return hashlib.sha256(cap.encode()).hexdigest()[:12]
