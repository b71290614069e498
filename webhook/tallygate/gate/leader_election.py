"""Leader election among the replicas, and the caps that are active in all of them (rule 8).

Leases elect the leader, as in Kubernetes (client-go tools/leaderelection, v1.36). The holder of the lease
`LEADER_LEASE` reconciles the ledgers. Each replica also has a lease of its own, and lists its active caps in it. Each
replica decides by its own clock whether a lease has expired, from the time at which it saw the last renewal. Clocks are
never compared.

The ledgers do not depend on a single leader: two leaders only reconcile a ledger twice. Where leases are unavailable,
every replica leads.
"""

import hashlib
import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from tallygate.admission.cap_index import get_cap_name
from tallygate.errors import TallygateError
from tallygate.gate.cap_activation import PREPARED_MARK, READY_SECONDS, RECORD_LEASE
from tallygate.state.ports import Lease, LeaseStore

LEADER_LEASE = "tallygate-leader"
"""The name of the leader's lease."""

REPLICA_LEASE_PREFIX = "tallygate-replica-"
"""The prefix of the names of the replicas' own leases."""

LEASE_DURATION_SECONDS = 15.0
"""The time for which a renewal is valid, as in Kubernetes' own components (client-go, LeaseDuration)."""

RETRY_PERIOD_SECONDS = 3.0
"""The time between two calls of `run_once`."""

_RENEW_DEADLINE_SECONDS = 10.0  # after that time without a renewal, the leader stops leading (client-go, RenewDeadline)
_MAX_LEASE_SECONDS = 60.0  # the longest duration of a lease that is accepted, whatever duration it contains
_LEASE_RETENTION_SECONDS = 600.0  # the leader removes the lease of a replica that does not return within that time


class Leadership(Protocol):
    """The role of this replica among all."""

    def is_leader(self) -> bool:
        """Return whether this replica reconciles ledgers."""
        ...

    def get_loaded_everywhere_since(self, cap: str) -> float | None:
        """Return the monotonic time since which a cap, by its key, is active in every replica; None if not yet."""
        ...

    def is_recorded(self, cap: str) -> bool:
        """Return whether the record of the caps that were active has a cap, by its key (rule 7)."""
        ...

    def count_lost_replicas(self) -> int:
        """Return the number of lost replicas: possibly no other replica has observed their reservations."""
        ...


class Standalone:
    """The role of a replica without others.

    `find_asked_since` returns the monotonic time since which every API server asks about a cap, by its key; None if
    that is not known yet (rule 14).
    """

    def __init__(self, find_asked_since: Callable[[str], float | None] = lambda _: -math.inf) -> None:
        self._find_asked_since = find_asked_since

    def is_leader(self) -> bool:
        """Return True: a standalone replica always leads."""
        return True

    def get_loaded_everywhere_since(self, cap: str) -> float | None:
        """Return the time since which the cap is asked about: no replica has accepted pods under other policies."""
        return self._find_asked_since(cap)

    def is_recorded(self, _: str) -> bool:
        """Return True: no other process needs a record."""
        return True

    def count_lost_replicas(self) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class _ObservedLease:
    """A lease, and the time at which this version of it was first seen."""

    lease: Lease
    since: float

    def is_live(self, now: float) -> bool:
        return bool(self.lease.holder) and now < self.since + min(self.lease.duration_seconds, _MAX_LEASE_SECONDS)


class LeaderElector:
    """One replica among others. One thread calls `run_once` and `release`; any thread calls the rest.

    `identity` is unique to this replica. `caps` returns the keys of the caps that are active here, each with whether
    every API server asks about it: the lease lists those (rule 14). `refresh` reads again what they ask about, before a
    cap is recorded. `prepare` gets the caps that the record has neither active nor with a mark, and returns those of
    which no former ledger is active: only these are recorded. It gets none when this replica begins to lead. Both raise
    TallygateError. `monotonic` is in seconds, and so is `in_flight_bound`. The leader also writes the record of the
    caps that were active (rule 7).
    """

    def __init__(  # noqa: PLR0913, PLR0917  # ports, each by its name
        self,
        store: LeaseStore,
        identity: str,
        caps: Callable[[], Mapping[str, bool]],
        monotonic: Callable[[], float],
        in_flight_bound: float = 0.0,
        refresh: Callable[[], None] = lambda: None,
        prepare: Callable[[Collection[str]], Collection[str]] = lambda caps: caps,
    ) -> None:
        self._store = store
        self._refresh = refresh
        self._prepare = prepare
        self._in_flight_bound = in_flight_bound
        self._recorded: frozenset[str] = frozenset()
        self._marked: frozenset[str] = frozenset()
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
        """Return whether this replica reconciles ledgers: it has the leader's lease, or leases are unavailable."""
        now = self._monotonic()
        return now < self._leader_until or now >= self._last_contact + LEASE_DURATION_SECONDS

    def get_loaded_everywhere_since(self, cap: str) -> float | None:
        """Return the time of this clock since which a cap is active in all live replicas; None if it is not yet.

        Where leases are unavailable, the other replicas are unknown, and only this one counts.
        """
        if self._monotonic() >= self._last_contact + LEASE_DURATION_SECONDS:
            return self._last_contact
        return self._loaded_since.get(cap)

    def is_recorded(self, cap: str) -> bool:
        """Return whether the record has a cap, as this replica saw it last. Where leases are unavailable, none does."""
        return cap in self._recorded or self._monotonic() >= self._last_contact + LEASE_DURATION_SECONDS

    def has_foreign_record(self) -> bool:
        """Return whether the record has a cap that is not active here: another replica may have it."""
        return not self._recorded <= self._caps().keys()

    def count_lost_replicas(self) -> int:
        """Return the number of other replicas that have ended, or whose leases have expired."""
        return self._lost_replicas

    def run_once(self) -> None:
        """Read all leases, renew the own one, and acquire or renew the leader's lease.

        The caller runs it every `RETRY_PERIOD_SECONDS`.

        Raises:
            RetryLaterError, StoreUnavailableError: if leases are unavailable; the next run may succeed.
            TallygateError: if what a new cap waits for cannot be read; all else is done.
        """
        caps, started_at = self._caps(), self._monotonic()
        self._observe(self._store.list_leases(), started_at)
        asked = [cap for cap, is_asked in caps.items() if is_asked]
        own = Lease(self._lease_name, self._identity, LEASE_DURATION_SECONDS, caps=frozenset(map(hash_cap_key, asked)))
        self._renew(self._observed.get(self._lease_name), own)
        self._acquire_or_renew(self._observed.get(LEADER_LEASE), started_at)
        self._update_loaded(asked, started_at)
        error = self._update_record(caps.keys(), started_at)
        self._count_lost(started_at)
        self._remove_expired(started_at)
        self._last_contact = started_at
        if error is not None:
            raise error

    def release(self) -> None:
        """Release the leader's lease, and remove the own one, so that another replica leads at once.

        Raises:
            RetryLaterError, StoreUnavailableError: if it is not released; the leases expire then.
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
        """Write a lease of this replica in place of the observed one, and return whether it is stored."""
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
        """Renew the leader's lease, or acquire it if it has expired."""
        if observed is not None and observed.lease.holder != self._identity and observed.is_live(started_at):
            self._leader_until = -1.0
            return
        if observed is None or observed.lease.holder != self._identity:
            self._prepare(())  # another replica may have recorded caps meanwhile
        sent_at = self._monotonic()
        if self._renew(observed, Lease(LEADER_LEASE, self._identity, LEASE_DURATION_SECONDS)):
            self._leader_until = sent_at + _RENEW_DEADLINE_SECONDS

    def _update_loaded(self, caps: Collection[str], started_at: float) -> None:
        """Record the caps that are active in every live replica.

        They were active before `started_at`, since the replicas wrote their leases before.
        """
        other_caps = [
            replica.lease.caps for replica in self._list_other_replicas(started_at) if replica.lease.caps is not None
        ]
        loaded = [cap for cap in caps if all(hash_cap_key(cap) in loaded_caps for loaded_caps in other_caps)]
        self._loaded_since = {cap: self._loaded_since.get(cap, started_at) for cap in loaded}

    def _update_record(self, caps: Collection[str], started_at: float) -> TallygateError | None:
        """Read the record of the caps that were active; on the leader, also write it.

        A cap is recorded once its ledgers can be activated: it was loaded everywhere for the in-flight bound. It is
        removed when no live replica still has it, unless another definition of it is about to take its place. Before it
        is recorded, the record has it with a mark as soon as its former ledgers count first. Return the error for which
        no cap is recorded now.
        """
        observed = self._observed.get(RECORD_LEASE)
        listed = (observed.lease.caps if observed is not None else None) or frozenset()
        marked = {cap.removeprefix(PREPARED_MARK) for cap in listed if cap.startswith(PREPARED_MARK)}
        stored = frozenset(cap for cap in listed if not cap.startswith(PREPARED_MARK))
        if not self._monotonic() < self._leader_until:
            self._recorded, self._marked = stored, frozenset(marked)
            return None
        # this replica saw both, if a user has deleted the record
        known, marked = stored | self._recorded, marked | self._marked
        prepared, due, error = self._find_due(frozenset(caps) - known, marked, known, started_at)
        record = frozenset(due | {cap for cap in known if self._is_in_use(cap, caps, known | due, started_at)})
        marks = {cap for cap in prepared - record if self._is_in_use(cap, caps, {*caps}, started_at)}
        written = record.union(PREPARED_MARK + cap for cap in marks)
        if written != listed:
            sent = Lease(RECORD_LEASE, self._identity, LEASE_DURATION_SECONDS, caps=written)
            if not self._renew(observed, sent):
                return error
        self._recorded, self._marked = record, frozenset(marks)
        return error

    def _find_due(
        self, unrecorded: frozenset[str], marked: Collection[str], known: Collection[str], started_at: float
    ) -> tuple[frozenset[str], frozenset[str], TallygateError | None]:
        """Return the caps without former active ledgers, those to be recorded now, and the error for which none is.

        Both are of those that the record lacks. The ledgers of a new cap admit until the record. Those of a cap that is
        `known` by another definition wait for it, so that it comes a little earlier.
        """
        names = {get_cap_name(cap) for cap in known}
        waits = {
            cap: self._in_flight_bound + (0 if get_cap_name(cap) in names else READY_SECONDS) for cap in unrecorded
        }
        due = {cap for cap, seconds in waits.items() if self._loaded_since.get(cap, math.inf) <= started_at - seconds}
        prepared = frozenset(marked)
        try:
            prepared = prepared.union(self._prepare(unrecorded - prepared))
            if due:
                # Another leader may have narrowed the registration since this replica read it.
                self._refresh()
        except TallygateError as error:
            return prepared, frozenset(), error
        asked = self._caps()
        return prepared, frozenset(cap for cap in due if cap in prepared and asked.get(cap)), None

    def _is_in_use(self, cap: str, caps: Collection[str], recorded: Collection[str], started_at: float) -> bool:
        """Return whether a live replica has a recorded cap, or this one another definition that is not recorded yet."""
        if cap in caps:
            return True
        others = [replica.lease.caps for replica in self._list_other_replicas(started_at)]
        if any(loaded is None or hash_cap_key(cap) in loaded for loaded in others):
            return True
        return any(get_cap_name(other_cap) == get_cap_name(cap) for other_cap in caps if other_cap not in recorded)

    def _list_other_replicas(self, started_at: float) -> list[_ObservedLease]:
        return [
            observed
            for observed in self._observed.values()
            if observed.lease.name.startswith(REPLICA_LEASE_PREFIX)
            and observed.lease.holder != self._identity
            and observed.is_live(started_at)
        ]

    def _count_lost(self, started_at: float) -> None:
        """Count the replicas that were live at the last run and are not now. A restarted replica has another name."""
        live = frozenset(replica.lease.name for replica in self._list_other_replicas(started_at))
        self._lost_replicas += len(self._live_replicas - live)
        self._live_replicas = live

    def _remove_expired(self, started_at: float) -> None:
        """Remove the leases that have not been renewed for 600 s, if this replica leads."""
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
    """Return a short hash of a cap's key for a lease: all of them must fit into one annotation."""
    return hashlib.sha256(cap.encode()).hexdigest()[:12]
