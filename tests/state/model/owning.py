"""A claim that the scheduler makes for a pod's extended resource belongs to the pod, and a tenant's copy does not.

Pod p requests one device by the name of an extended resource. The scheduler stores claim s for it, reserves s for p in
the claim's status, and then names s in the pod's status. A scheduler that has just started may not have seen s, and
stores a second claim r. A tenant may delete s by force and store claim t, with the name, the owner and the annotations
of s. Another pod q wants one device, too. A pod that has ended counts nothing; its claims have their devices until they
are deleted.

The gate charges every creation. The part of p in the used amount covers one claim of the scheduler: until a replica has
seen it, or p ends. Pods and claims have a watch each, so a replica may have seen more of one than of the other.
Revisions are those of etcd.
"""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import NamedTuple

from tests.state.model.rules import Mutants

# Events of pods, then of claims: each may be stored once.
POD_STORED, POD_NAMES_CLAIM, POD_ENDED, OTHER_STORED = "p", "p names s", "p ended", "q"
CLAIM_STORED, CLAIM_RESERVED, CLAIM_DELETED = "s", "s is reserved for p", "s is deleted"
SECOND_STORED, COPY_STORED = "r", "t"
_POD_EVENTS = frozenset({POD_STORED, POD_NAMES_CLAIM, POD_ENDED, OTHER_STORED})
_OF_SCHEDULER = frozenset({CLAIM_STORED, SECOND_STORED})

_AFTER = {
    POD_NAMES_CLAIM: {CLAIM_RESERVED},
    POD_ENDED: {POD_STORED},
    CLAIM_STORED: {POD_STORED},
    CLAIM_RESERVED: {CLAIM_STORED},
    CLAIM_DELETED: {CLAIM_RESERVED},
    SECOND_STORED: {POD_STORED},
    COPY_STORED: {CLAIM_DELETED},
}
"""The events that must be stored before an event.

A claim in use may be deleted: a tenant may remove its finalizer.
"""

_CREATIONS = frozenset({POD_STORED, OTHER_STORED, CLAIM_STORED, SECOND_STORED, COPY_STORED})


class Ledger(NamedTuple):
    """The used amount, the revisions of pods and claims of its count, and the creations that are reserved.

    `covered` are those of the scheduler's claims among them that the part of p in the used amount covers, and `covers`
    is True if it may cover one.
    """

    used: int = 0
    pods_revision: int = 0
    claims_revision: int = 0
    reserved: frozenset[str] = frozenset()
    covered: frozenset[str] = frozenset()
    covers: bool = False

    @property
    def charged(self) -> int:
        """The amount that is compared with the cap."""
        return self.used + len(self.reserved - self.covered)


class State(NamedTuple):
    """The stored events (a revision is their number), the ledger, and the creations that are allowed but not stored."""

    history: tuple[str, ...] = ()
    ledger: Ledger = Ledger()
    allowed: frozenset[str] = frozenset()


Step = tuple[str, State]


@dataclass(frozen=True)
class Owning:
    """Pod p with its claim s, pod q, and the `others` among the claims r and t; the cap allows `hard` devices."""

    mutants: Mutants = frozenset()
    hard: int = 2
    others: AbstractSet[str] = frozenset({COPY_STORED})

    def start(self) -> State:
        """Return the state in which nothing is stored."""
        return State()

    def find_violation(self, state: State) -> str:
        """Return the invariant that does not hold: no more devices are in use than allowed, and none counts twice."""
        in_use = _count_devices(set(state.history))
        if in_use > self.hard:
            return f"over: the cap allows {self.hard}, and {in_use} devices are in use"
        ledger = state.ledger
        is_current = min(ledger.pods_revision, ledger.claims_revision) == len(state.history)
        if is_current and not state.allowed and ledger.charged > in_use and _is_settled(set(state.history)):
            return f"overcharge: {in_use} devices are in use, and {ledger.charged} are charged"
        return ""

    def list_steps(self, state: State) -> Iterator[Step]:
        """Yield every next step and the state after it."""
        stored = set(state.history)
        for event in sorted(_CREATIONS | _AFTER.keys()):
            is_played = event not in {SECOND_STORED, COPY_STORED} or event in self.others
            if event in stored or not _AFTER.get(event, set()) <= stored or not is_played:
                continue
            if event not in _CREATIONS:
                yield f"{event} is stored", state._replace(history=(*state.history, event))
            elif event in state.allowed:
                after = state._replace(history=(*state.history, event), allowed=state.allowed - {event})
                yield f"{event} is stored", after
            elif (ledger := self._reserve(state.ledger, event)) is not None:
                yield f"{event} is allowed", state._replace(ledger=ledger, allowed=state.allowed | {event})
        for pods_revision in range(state.ledger.pods_revision, len(state.history) + 1):
            for claims_revision in range(state.ledger.claims_revision, len(state.history) + 1):
                ledger = self._recount(state, pods_revision, claims_revision)
                yield f"a recount at {pods_revision} and {claims_revision}", state._replace(ledger=ledger)

    def _reserve(self, ledger: Ledger, event: str) -> Ledger | None:
        """Return the ledger with the reservation of a creation; None if it exceeds the cap.

        A recount may come before, so that a claim of the scheduler finds the part of its pod.
        """
        if event in _OF_SCHEDULER and self.mutants & {"own_uncharged", "own_uncharged_until_seen"}:
            return ledger
        is_first = "covers_twice" in self.mutants or not ledger.reserved & _OF_SCHEDULER
        is_covered = event in _OF_SCHEDULER and ledger.covers and is_first
        covered = ledger.covered | {event} if is_covered else ledger.covered
        after = ledger._replace(reserved=ledger.reserved | {event}, covered=covered)
        is_checked = not is_covered and not (event in _OF_SCHEDULER and "own_unchecked" in self.mutants)
        return None if is_checked and after.charged > self.hard else after

    def _recount(self, state: State, pods_revision: int, claims_revision: int) -> Ledger:
        """Return the ledger as counted from pods and claims of two revisions."""
        pods = {event for event in state.history[:pods_revision] if event in _POD_EVENTS}
        claims = {event for event in state.history[:claims_revision] if event not in _POD_EVENTS}
        is_pod_counted = POD_STORED in pods and not self._is_done(state, pods, claims_revision)
        used = is_pod_counted + (OTHER_STORED in pods) + (SECOND_STORED in claims)
        is_claim_stored = CLAIM_STORED in claims and CLAIM_DELETED not in claims
        if is_claim_stored:
            used += not (self._belongs_to_pod(pods, claims, is_copy=False) and is_pod_counted)
        if COPY_STORED in claims:
            used += not (self._belongs_to_pod(pods, claims, is_copy=True) and is_pod_counted)
        is_served = is_claim_stored or bool(claims & {SECOND_STORED, COPY_STORED})
        covers = is_pod_counted and (not is_served or "covers_beside_counted" in self.mutants)
        reserved = state.ledger.reserved - pods - claims
        return Ledger(
            used, pods_revision, claims_revision, reserved, self._select_covered(state.ledger, reserved, covers), covers
        )

    def _select_covered(self, before: Ledger, reserved: frozenset[str], covers: bool) -> frozenset[str]:  # noqa: FBT001
        """Return the reservations that the part of p covers: that of one claim of the scheduler."""
        if "stays_covered" in self.mutants:
            return before.covered & reserved
        of_scheduler = sorted(reserved & _OF_SCHEDULER)
        limit = None if self.mutants & {"covers_twice", "recount_covers_twice"} else 1
        return frozenset(of_scheduler[:limit] if covers else ())

    def _is_done(self, state: State, pods: set[str], claims_revision: int) -> bool:
        """Return whether a pod no longer counts, since it has ended."""
        if POD_ENDED not in pods:
            return False
        return "own_uncharged_until_seen" not in self.mutants or claims_revision > state.history.index(POD_ENDED)

    def _belongs_to_pod(self, pods: set[str], claims: set[str], *, is_copy: bool) -> bool:
        """Return whether a claim is the pod's: statuses say so, which a tenant cannot write.

        The pod's status has the name of the claim, which the copy has, too; the claim's status has the UID of the pod.
        """
        if "trusts_owner" in self.mutants:
            return True
        if "charges_both" in self.mutants:
            return False
        is_named = POD_NAMES_CLAIM in pods
        if "trusts_name" in self.mutants:
            return is_named
        return is_named and not is_copy and CLAIM_RESERVED in claims


def _count_devices(stored: set[str]) -> int:
    """Return the number of devices in use: of p or of its claims, of q, and of t.

    A claim that is stored gets its device without a decision.
    """
    has_pod = POD_STORED in stored and POD_ENDED not in stored
    has_claim = CLAIM_STORED in stored and CLAIM_DELETED not in stored
    return max(has_pod, has_claim + (SECOND_STORED in stored)) + (OTHER_STORED in stored) + (COPY_STORED in stored)


def _is_settled(stored: set[str]) -> bool:
    """Return whether the scheduler and the controllers have done what they do: nothing is counted for longer then."""
    if POD_ENDED in stored:
        return True
    if POD_NAMES_CLAIM in stored:
        return not {SECOND_STORED, CLAIM_DELETED} <= stored
    return not stored & _OF_SCHEDULER
