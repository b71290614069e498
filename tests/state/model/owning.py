"""A claim that the scheduler makes for a pod's extended resource belongs to the pod, and a tenant's copy does not.

Pod p requests one device by the name of an extended resource. The scheduler stores claim s for it, reserves s for p in
the claim's status, and then names s in the pod's status. A tenant may delete s by force and store claim t, with the
name, the owner and the annotations of s. Another pod q wants one device, too. A pod that has ended counts nothing; its
claim has the device until it is deallocated.

Pods and claims have a watch each, so a replica may have seen more of one than of the other. Revisions are those of
etcd.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tests.state.model.rules import Mutants

# Events of pods, then of claims: each may be stored once.
POD_STORED, POD_NAMES_CLAIM, POD_ENDED, OTHER_STORED = "p", "p names s", "p ended", "q"
CLAIM_STORED, CLAIM_RESERVED, CLAIM_FREED, CLAIM_DELETED = "s", "s is reserved for p", "s is free", "s is deleted"
COPY_STORED = "t"
_POD_EVENTS = frozenset({POD_STORED, POD_NAMES_CLAIM, POD_ENDED, OTHER_STORED})

_AFTER = {
    POD_NAMES_CLAIM: {CLAIM_RESERVED},
    POD_ENDED: {POD_NAMES_CLAIM},
    CLAIM_STORED: {POD_STORED},
    CLAIM_RESERVED: {CLAIM_STORED},
    CLAIM_FREED: {POD_ENDED},
    CLAIM_DELETED: {CLAIM_RESERVED},
    COPY_STORED: {CLAIM_DELETED},
}
"""The events that must be stored before an event.

A claim in use may be deleted: a tenant may remove its finalizer.
"""

_CHARGED = {POD_STORED, OTHER_STORED, COPY_STORED}
"""The creations that the gate charges. The scheduler's own claim is not charged: its user is known at admission."""


class Ledger(NamedTuple):
    """The used amount, the revisions of pods and claims of its count, and the creations that are reserved."""

    used: int = 0
    pods_revision: int = 0
    claims_revision: int = 0
    reserved: tuple[str, ...] = ()

    @property
    def charged(self) -> int:
        """The amount that is compared with the cap."""
        return self.used + len(self.reserved)


class State(NamedTuple):
    """The stored events (a revision is their number), the ledger, and the creations that are allowed but not stored."""

    history: tuple[str, ...] = ()
    ledger: Ledger = Ledger()
    allowed: tuple[str, ...] = ()


Step = tuple[str, State]


@dataclass(frozen=True)
class Owning:
    """Pod p with its claim s, the copy t, and pod q; the cap allows `hard` devices."""

    mutants: Mutants = frozenset()
    hard: int = 2

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
        for event in (*sorted(_CHARGED), *_AFTER):
            if (
                event in stored
                or not _AFTER.get(event, set()) <= stored
                or (event == CLAIM_FREED and CLAIM_DELETED in stored)
            ):
                continue
            if event not in _CHARGED:
                yield f"{event} is stored", state._replace(history=(*state.history, event))
            elif event in state.allowed:
                left = tuple(each for each in state.allowed if each != event)
                yield f"{event} is stored", state._replace(history=(*state.history, event), allowed=left)
            elif state.ledger.charged < self.hard:
                reserved = tuple(sorted([*state.ledger.reserved, event]))
                yield (
                    f"{event} is allowed",
                    state._replace(
                        ledger=state.ledger._replace(reserved=reserved), allowed=tuple(sorted([*state.allowed, event]))
                    ),
                )
        for pods_revision in range(state.ledger.pods_revision, len(state.history) + 1):
            for claims_revision in range(state.ledger.claims_revision, len(state.history) + 1):
                ledger = self._recount(state, pods_revision, claims_revision)
                yield f"a recount at {pods_revision} and {claims_revision}", state._replace(ledger=ledger)

    def _recount(self, state: State, pods_revision: int, claims_revision: int) -> Ledger:
        """Return the ledger as counted from pods and claims of two revisions."""
        pods = {event for event in state.history[:pods_revision] if event in _POD_EVENTS}
        claims = {event for event in state.history[:claims_revision] if event not in _POD_EVENTS}
        is_pod_counted = POD_STORED in pods and not self._is_done(state, pods, claims_revision)
        used = is_pod_counted + (OTHER_STORED in pods)
        if CLAIM_STORED in claims and CLAIM_DELETED not in claims:
            used += not (self._belongs_to_pod(pods, claims, is_copy=False) and is_pod_counted)
        if COPY_STORED in claims:
            used += not (self._belongs_to_pod(pods, claims, is_copy=True) and is_pod_counted)
        seen = pods | claims
        reserved = tuple(each for each in state.ledger.reserved if each not in seen)
        return Ledger(used, pods_revision, claims_revision, reserved)

    def _is_done(self, state: State, pods: set[str], claims_revision: int) -> bool:
        """Return whether a pod no longer counts: it has ended, and its claim is known as of that moment or later."""
        if POD_ENDED not in pods:
            return False
        return "ended_counts_nothing" in self.mutants or claims_revision > state.history.index(POD_ENDED)

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
        return is_named and not is_copy and CLAIM_RESERVED in claims and CLAIM_FREED not in claims


def _count_devices(stored: set[str]) -> int:
    """Return the number of devices in use: of p or of its claim, of q, and of t."""
    has_claim = CLAIM_RESERVED in stored and not stored & {CLAIM_FREED, CLAIM_DELETED}
    has_pod = POD_STORED in stored and POD_ENDED not in stored
    return (has_pod or has_claim) + (OTHER_STORED in stored) + (COPY_STORED in stored)


def _is_settled(stored: set[str]) -> bool:
    """Return whether the scheduler and the controllers have done what they do: nothing is counted for longer then."""
    if POD_ENDED in stored:
        return CLAIM_DELETED in stored
    return CLAIM_STORED not in stored or POD_NAMES_CLAIM in stored
