"""API servers ask the gate about a cap only once the registration covers it (rules 7, 8 and 14).

The leader writes the registration. One API server has it at once, the other one `LAG` ticks later at most. Through a
server that does not ask, pods are stored without the gate, and so they are by a replica in which the cap is not active.
Replicas load the cap one after the other, restart, and may unload it and load it again. The cap allows one pod.

A cap that no replica has any more leaves the record, and its ledger remains. When the cap is restored, the leader makes
the ledger one that counts first, before it records the cap again.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tests.state.model.rules import Mutants
from tests.state.model.world import BOUND

LAG = 2
"""The ticks by which every API server is assumed to have a registration."""
_HARD = 1
_NEVER = -1
_SERVERS = (0, 1)


class Ledger(NamedTuple):
    """A ledger: counting as of a new cap, closed as a lost one, or active."""

    phase: str  # counting, closed, active
    since: int
    used: tuple[int, ...] = ()
    reservations: tuple[int, ...] = ()
    counted_at: int = 0


class Registration(NamedTuple):
    """The stored registration: whether it covers the cap, and how many times it was widened.

    The server that lags has `asks`, and `unseen` are the later versions with their times. `narrowing` is a write that
    was sent, with its time and the widening that it takes back.
    """

    covers: bool = False
    widenings: int = 0
    asks: bool = False
    unseen: tuple[tuple[bool, int], ...] = ()
    narrowing: tuple[int, int] | None = None


class Replica(NamedTuple):
    """A replica; `asked_at` is the time at which it first read a registration that covers the cap.

    `widening` is that of this registration, and `is_early` whether this was the first read after a start.
    """

    is_loaded: bool = False
    loaded_at: int = _NEVER
    asked_at: int = _NEVER
    widening: int = 0
    is_early: bool = False
    is_ready: bool = True


class Pod(NamedTuple):
    """The progress of a creation: idle, reading, allowed, stored, dropped or rejected.

    `is_recorded` is whether the record had the cap as the attempt read it; `active_at` is the time since which its
    replica has had the cap active; `is_bound` is whether the cap was enforced before the attempt began.
    """

    phase: str = "idle"
    arrived_at: int = 0
    is_recorded: bool = False
    active_at: int = 0
    is_bound: bool = False


class State(NamedTuple):
    """The state of the world; `is_recorded` is whether the record has the cap.

    `is_enforced` is whether no attempt may exceed the cap: from its record on, until a replica unloads it.
    """

    now: int = 0
    ledger: Ledger | None = None
    registration: Registration = Registration()
    replicas: tuple[Replica, ...] = (Replica(), Replica())
    leader: int = 0
    is_recorded: bool = False
    is_enforced: bool = False
    pods: tuple[Pod, ...] = ()
    removals: int = 0
    restarts: int = 0
    leads: int = 0
    violation: str = ""


Step = tuple[str, State]


@dataclass(frozen=True)
class Registering:
    """Two replicas, two API servers, and two pods; the numbers are the most that may happen of each kind."""

    mutants: Mutants = frozenset()
    ticks: int = 5
    is_new: bool = True
    removals: int = 0
    restarts: int = 0
    leads: int = 0

    def start(self) -> State:
        """Return the state in which the leader has just loaded a new cap, or unloaded one that was active for long."""
        pods = (Pod(), Pod())
        if self.is_new:
            return State(pods=pods, replicas=(Replica(is_loaded=True, loaded_at=0), Replica()))
        replicas = Replica(asked_at=-9, widening=1), Replica(is_loaded=True, loaded_at=-9, asked_at=-9, widening=1)
        registration = Registration(covers=True, widenings=1, asks=True)
        return State(0, Ledger("active", -9), registration, replicas, is_recorded=True, pods=pods)

    def find_violation(self, state: State) -> str:
        """Return the invariant that does not hold.

        An attempt that begins after the record is written is allowed only if there is room, until a replica unloads
        the cap (*over*). While every replica has a recorded cap, each creation is charged (*unasked*). None waits for
        a cap that is not recorded (*refused*).
        """
        return state.violation

    def list_steps(self, state: State) -> Iterator[Step]:
        """Yield every next step and the state after it."""
        for number in range(len(state.replicas)):
            yield from self._list_replica_steps(state, number)
        for number, pod in enumerate(state.pods):
            yield from self._list_pod_steps(state, number, pod)
        yield from self._list_registration_steps(state)
        yield from self._list_record_steps(state)
        if state.leads < self.leads:
            leader = 1 - state.leader
            yield f"replica {leader} leads", state._replace(leader=leader, leads=state.leads + 1)
        is_due = any(at + LAG <= state.now + 1 for _, at in state.registration.unseen)
        if state.now < self.ticks and not is_due:
            yield f"time {state.now + 1}", _pass_time(state, forgets=self.is_new)

    # Replicas

    def _list_replica_steps(self, state: State, number: int) -> Iterator[Step]:
        replica, registration = state.replicas[number], state.registration
        if not replica.is_loaded:
            loaded = replica._replace(is_loaded=True, loaded_at=state.now)
            if "begins_at_load" in self.mutants:
                loaded = loaded._replace(asked_at=_NEVER, widening=0, is_early=False)
            yield f"replica {number} loads the cap", _put_replica(state, number, loaded)
        elif state.removals < self.removals:
            unloaded = _put_replica(state, number, replica._replace(is_loaded=False, loaded_at=_NEVER))
            yield (
                f"replica {number} unloads the cap",
                unloaded._replace(removals=state.removals + 1, is_enforced=False),
            )
        is_known = bool(replica.widening)
        has_changed = is_known and replica.widening != registration.widenings and "misses_narrowing" not in self.mutants
        if replica.is_ready and registration.covers and (not is_known or has_changed):
            asked = replica._replace(asked_at=state.now, widening=registration.widenings, is_early=is_known)
            yield f"replica {number} reads the registration with the cap", _put_replica(state, number, asked)
        if replica.is_ready and not registration.covers and is_known:
            forgotten = replica._replace(asked_at=_NEVER, widening=0, is_early=False)
            yield f"replica {number} reads the registration without the cap", _put_replica(state, number, forgotten)
        if not replica.is_ready:
            started = replica._replace(is_ready=True)
            if registration.covers:
                is_early = "waits_after_start" not in self.mutants
                started = started._replace(asked_at=state.now, widening=registration.widenings, is_early=is_early)
            yield f"replica {number} reads the registration first", _put_replica(state, number, started)
        active_at = self._find_active_at(state, number)
        ledger = state.ledger
        if active_at is not None and ledger is not None and ledger.phase == "active" and ledger.counted_at <= active_at:
            yield f"replica {number} counts", state._replace(ledger=_count(state, ledger))
        if replica.is_loaded and replica.is_ready and state.restarts < self.restarts:
            restarted = Replica(is_loaded=True, loaded_at=state.now, is_ready=False)
            after = _put_replica(state, number, restarted)._replace(restarts=state.restarts + 1)
            yield f"replica {number} starts again", after

    def _find_active_at(self, state: State, number: int) -> int | None:
        """Return the time since which the cap has been active in a replica, for admissions; None if it is not."""
        replica = state.replicas[number]
        if not replica.is_loaded:
            return None
        if self._waits_for_nothing(state, number):
            return replica.loaded_at
        lag = 0 if replica.is_early or "no_lag" in self.mutants else LAG
        if not replica.widening or state.now < replica.asked_at + lag:
            return None
        return max(replica.loaded_at, replica.asked_at + lag)

    def _find_listed_at(self, state: State, number: int) -> int | None:
        """Return the time since which the Lease of a replica has listed the cap; None if it does not."""
        replica = state.replicas[number]
        if not replica.is_early or "lists_at_start" in self.mutants or self._waits_for_nothing(state, number):
            return self._find_active_at(state, number)
        listed_at = max(replica.loaded_at, replica.asked_at + LAG)
        return listed_at if replica.is_loaded and state.now >= listed_at else None

    def _waits_for_nothing(self, state: State, number: int) -> bool:
        is_other = "leader_only" in self.mutants and number != state.leader
        return is_other or "enforces_before_asked" in self.mutants

    # Creations

    def _list_pod_steps(self, state: State, number: int, pod: Pod) -> Iterator[Step]:
        if pod.phase == "idle" and not (number and state.pods[0].phase == "idle"):  # the pods are alike
            for server in _SERVERS:
                asks = state.registration.covers if server == 0 else state.registration.asks
                if not asks:
                    line = f"server {server} does not ask about pod {number}"
                    yield line, self._allow_uncharged(state, number)
            if state.registration.covers or state.registration.asks:
                yield from self._list_calls(state, number)
        if pod.phase == "reading":
            yield self._reserve(state, number, pod)
        if pod.phase == "allowed":
            yield f"pod {number} is stored", _put_pod(state, number, Pod("stored"))

    def _list_calls(self, state: State, number: int) -> Iterator[Step]:
        for replica, each in enumerate(state.replicas):
            if not each.is_ready:
                continue
            active_at = self._find_active_at(state, replica)
            if active_at is None:
                line = f"replica {replica} allows pod {number} without the cap"
                yield line, self._allow_uncharged(state, number)
                continue
            reading = Pod("reading", state.now, state.is_recorded, 0 if self.is_new else active_at, state.is_enforced)
            yield f"replica {replica} reads the record for pod {number}", _put_pod(state, number, reading)

    def _allow_uncharged(self, state: State, number: int) -> State:
        after = self._allow(state, number, Pod("idle", state.now, is_bound=state.is_enforced), state.ledger)
        if state.is_recorded and all(each.is_loaded for each in state.replicas):
            after = after._replace(violation="unasked: a pod is not charged, and every replica has the recorded cap")
        return after

    def _reserve(self, state: State, number: int, pod: Pod) -> Step:
        """Write the ledger: compared and swapped, so that it is the one that is stored at this moment."""
        ledger = state.ledger or Ledger("closed" if pod.is_recorded else "counting", state.now)
        if ledger.phase == "counting" and not pod.is_recorded:
            line = f"pod {number} is admitted while the cap counts"
            return line, self._allow(state, number, pod, _add(ledger, number))
        if ledger.phase == "active":
            if ledger.counted_at <= pod.active_at:
                ledger = _count(state, ledger)
            if len({*ledger.used, *ledger.reservations, number}) <= _HARD:
                return f"pod {number} is reserved", self._allow(state, number, pod, _add(ledger, number))
            rejected = _put_pod(state._replace(ledger=ledger), number, Pod("rejected"))
            return f"pod {number} is rejected", rejected
        after = _put_pod(state._replace(ledger=ledger), number, Pod())
        if not state.is_recorded and not pod.is_recorded:
            after = after._replace(violation="refused: a pod waits for a cap that is not recorded")
        return f"pod {number} waits for the ledger", after

    def _allow(self, state: State, number: int, pod: Pod, ledger: Ledger | None) -> State:
        """Store the ledger, and allow the pod if the API server still waits for the attempt."""
        if state.now - pod.arrived_at >= BOUND:
            return _put_pod(state._replace(ledger=ledger), number, Pod("dropped"))
        others = [each for uid, each in enumerate(state.pods) if uid != number and each.phase in {"stored", "allowed"}]
        after = _put_pod(state._replace(ledger=ledger), number, Pod("allowed", pod.arrived_at))
        if pod.is_bound and state.is_enforced and len(others) >= _HARD:
            after = after._replace(violation=f"over: a pod beside {len(others)} under an active cap of {_HARD}")
        return after

    # The leader and the API servers

    def _list_registration_steps(self, state: State) -> Iterator[Step]:
        """Widen at once, narrow what no replica has had any more, and let the other server see it."""
        registration, leader = state.registration, state.replicas[state.leader]
        if leader.is_loaded and not registration.covers:
            widened = registration._replace(covers=True, widenings=registration.widenings + 1)
            yield "the leader widens the registration", _register(state, widened)
        may_narrow = not state.is_recorded or "narrows_at_once" in self.mutants
        if not leader.is_loaded and registration.covers and may_narrow and registration.narrowing is None:
            if self.leads:  # the write may arrive under another leader
                sent = registration._replace(narrowing=(state.now, registration.widenings))
                yield "the leader sends a narrower registration", state._replace(registration=sent)
            else:
                yield "the leader narrows the registration", _register(state, registration._replace(covers=False))
        if registration.narrowing is not None:
            sent_at, widening = registration.narrowing
            done = registration._replace(narrowing=None)
            if registration.covers and widening == registration.widenings and state.now - sent_at < BOUND:
                yield "the registration is narrowed", _register(state, done._replace(covers=False))
            else:
                yield "the narrower registration is dropped", state._replace(registration=done)
        if registration.unseen:
            (asks, at), *later = registration.unseen
            seen = registration._replace(asks=asks, unseen=tuple(later))
            if not asks:
                yield "server 1 asks no more", state._replace(registration=seen)
            elif at + LAG <= state.now + 1:  # before that it would do as server 0 does
                yield "server 1 asks from now on", state._replace(registration=seen)

    def _list_record_steps(self, state: State) -> Iterator[Step]:
        """Record the cap once every replica has listed it for the bound, then activate; forget a removed cap.

        Before that, the leader makes the ledger of a restored cap one that counts first.
        """
        ledger, leader = state.ledger, state.replicas[state.leader]
        is_due, has_cap = self._is_due(state), self._find_active_at(state, state.leader) is not None
        is_same = leader.widening == state.registration.widenings or "misses_narrowing" in self.mutants
        is_read = is_same and state.registration.covers
        is_kept = ledger is not None and ledger.phase != "counting" and "keeps_ledger" not in self.mutants
        if ledger is not None and has_cap and is_kept and not state.is_recorded:
            counting = ledger._replace(phase="counting", since=state.now)
            yield "the leader lets the ledger count first", state._replace(ledger=counting)
        may_record = (is_read or self.mutants & {"records_unread", "enforces_before_asked"}) and not is_kept
        if is_due and not state.is_recorded and may_record:
            yield "the leader records the cap", state._replace(is_recorded=True, is_enforced=True)
        if state.is_recorded and not any(each.is_loaded for each in state.replicas):
            yield "the record loses the cap", state._replace(is_recorded=False)
        if ledger is None and has_cap:
            phase = "closed" if state.is_recorded else "counting"
            yield "the leader creates the ledger", state._replace(ledger=Ledger(phase, state.now))
        if ledger is None or not is_due or not state.is_recorded or state.now < ledger.since + BOUND:
            return
        if ledger.phase != "active":
            active = _count(state, ledger)._replace(phase="active")
            yield "the ledger is activated", state._replace(ledger=active)

    def _is_due(self, state: State) -> bool:
        listed = [self._find_listed_at(state, number) for number in range(len(state.replicas))]
        return all(each is not None and state.now >= each + BOUND for each in listed)


def _pass_time(state: State, *, forgets: bool) -> State:
    """Return the next tick: what is allowed is dropped after the bound. If it `forgets`, longer times are all equal."""
    now = state.now + 1
    pods = (Pod("dropped") if pod.phase == "allowed" and now - pod.arrived_at >= BOUND else pod for pod in state.pods)
    after = state._replace(now=now, pods=tuple(pods))
    if not forgets:
        return after
    oldest = now - LAG - BOUND
    replicas = (
        each._replace(loaded_at=max(each.loaded_at, oldest), asked_at=max(each.asked_at, oldest))
        for each in state.replicas
    )
    ledger = state.ledger and state.ledger._replace(since=max(state.ledger.since, oldest), counted_at=now)
    return after._replace(replicas=tuple(replicas), ledger=ledger)


def _add(ledger: Ledger, number: int) -> Ledger:
    return ledger._replace(reservations=tuple(sorted({*ledger.reservations, number})))


def _count(state: State, ledger: Ledger) -> Ledger:
    stored = tuple(number for number, pod in enumerate(state.pods) if pod.phase == "stored")
    reservations = tuple(number for number in ledger.reservations if number not in stored)
    return ledger._replace(used=stored, reservations=reservations, counted_at=state.now)


def _register(state: State, registration: Registration) -> State:
    unseen = (*registration.unseen, (registration.covers, state.now))
    return state._replace(registration=registration._replace(unseen=unseen))


def _put_replica(state: State, number: int, replica: Replica) -> State:
    replicas = (replica, state.replicas[1]) if number == 0 else (state.replicas[0], replica)
    return state._replace(replicas=replicas)


def _put_pod(state: State, number: int, pod: Pod) -> State:
    return state._replace(pods=(*state.pods[:number], pod, *state.pods[number + 1 :]))
