"""The invariants, which are checked after every write of a ledger and every stored pod.

A ledger never charges a pod less than its claim. The used amounts of a ledger are exactly those of the pods that were
stored at the ledger's revision. The sum of all claims never exceeds a cap. A replica reserves nothing by a count that
lacks a pod if the replica has seen the pod return to the cap with its namespace.
"""

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from tallygate.webhook.admission.cap_index import CapIndex, get_cap_name
from tallygate.webhook.gate.charging import ChargedConsumer
from tallygate.webhook.state.ledger.ledger import Ledger
from tallygate.webhook.state.ports import LedgerKey
from tests.gate.simulation.ground_truth import GroundTruth, Pod, hash_members
from tests.gate.simulation.replica import SeenRevisions
from tests.state.informers.pods import GPU


class Foreign(NamedTuple):
    """A pod that came under a cap uncharged, stored at `revision`, and the last return of its namespace."""

    revision: int
    entered: int


class Invariants:
    """Checks of ledgers, reservations and stored pods; `violation` is the first that failed.

    `compute_claims` returns the claims under a ledger. A pod is foreign to a cap if it was accepted without the cap or
    returned to it with its namespace. It is excused until a recount must have counted it, with its later changes.
    """

    def __init__(
        self, truth: GroundTruth, compute_claims: Callable[[LedgerKey], Mapping[str, int]], caps: CapIndex
    ) -> None:
        self._truth = truth
        self.violation = ""
        self._compute_claims = compute_claims
        self._caps = caps.list_caps()
        self._hard = {cap.key: cap.hard[GPU] for cap in self._caps}
        self._foreign: dict[tuple[LedgerKey, str], Foreign] = {}
        self._has_foreign: set[LedgerKey] = set()

    def check_ledger(self, key: LedgerKey) -> None:
        """Check one ledger."""
        stored = self._truth.ledgers.get(key)
        if stored is None or stored[0].initializer:
            return
        ledger, claims = stored[0], self._compute_claims(key)
        used_by_pod = self._check_used(key, ledger)
        self._end_excuses(key, ledger)
        for uid, claim in sorted(claims.items()):
            charged = _compute_charged(ledger, used_by_pod, uid)
            if charged < claim and (key, uid) not in self._foreign:
                self._record(f"undercount: {_name(key)} charges {uid} {charged}; its claim is {claim}")
        hard, total = self._hard[key.cap], sum(claims.values())
        if total > hard and key not in self._has_foreign:
            self._record(f"over: {_name(key)} allows {hard}; the claims are {total}")

    def check_stored_pod(self, uid: str, reserved: Collection[LedgerKey], namespaces_revision: int) -> None:
        """Check a pod that has just been stored.

        The ledgers `reserved` admitted it, by the namespaces as of `namespaces_revision`.
        """
        pod = self._truth.pods[uid]
        for key in self._list_keys(pod.namespace):
            if key not in reserved or self._find_entered(key, pod.namespace) > namespaces_revision:
                self._excuse(key, pod)
            self.check_ledger(key)

    def excuse_returned(self, namespace: str, cap: str) -> None:
        """Excuse the pods of a namespace that has just returned to a cap."""
        for key in self._list_keys(namespace):
            for pod in self._truth.pods.values():
                if get_cap_name(key.cap) == cap and pod.namespace == namespace:
                    self._excuse(key, pod)

    def check_reservation(self, key: LedgerKey, pod: ChargedConsumer, loaded_at: int, seen: SeenRevisions) -> None:
        """Check that the count behind a reservation was made after the cap was active in the replica.

        The count must include the pods of returned namespaces if the replica had seen both before the attempt. It may
        lack a pod that a replica accepted uncharged after the return, before it had seen the return.
        """
        stored = self._truth.ledgers.get(key)
        reservation = stored[0].reservations.get(pod.uid) if stored else None
        if stored is None or reservation is None or reservation.attempt != pod.attempt:
            return
        ledger = stored[0]
        if ledger.pods_revision < loaded_at:
            self._record(f"unseen: {_name(key)} reserves for {pod.uid} by a count from before its cap was active")
        used_by_pod, members = self._check_used(key, ledger), self._find_members(ledger)
        for (foreign_key, uid), foreign in self._foreign.items():
            returned = self._truth.pods.get(uid)
            was_seen = foreign.revision <= seen.pods and foreign.entered <= seen.namespaces
            if foreign_key != key or returned is None or not was_seen:
                continue
            came_later, has_left = foreign.revision > foreign.entered, returned.namespace not in members
            if ledger.namespaces_revision >= foreign.entered and (came_later or has_left):
                continue
            if _compute_charged(ledger, used_by_pod, uid) < returned.used:
                self._record(f"unseen: {_name(key)} reserves for {pod.uid} by a count from before {uid} returned")

    def _list_keys(self, namespace: str) -> list[LedgerKey]:
        """Return the ledgers of the caps of which a namespace is a member now."""
        keys = [LedgerKey(cap.key, "" if cap.definition.shared else namespace) for cap in self._caps]
        return [key for key in keys if self._truth.is_member(key, namespace)]

    def _find_entered(self, key: LedgerKey, namespace: str) -> int:
        return self._truth.entered.get((namespace, get_cap_name(key.cap)), 0)

    def _excuse(self, key: LedgerKey, pod: Pod) -> None:
        self._foreign[key, pod.uid] = Foreign(pod.revision, self._find_entered(key, pod.namespace))
        self._has_foreign.add(key)

    def _record(self, violation: str) -> None:
        self.violation = self.violation or violation

    def _check_used(self, key: LedgerKey, ledger: Ledger) -> dict[str, int]:
        """Check the used amounts of a ledger; return the part of each pod in them."""
        pods = self._truth.list_pods_at(ledger.pods_revision)
        members = self._find_members(ledger)
        used_by_pod = {
            uid: pod.used
            for uid, pod in pods.items()
            if key.namespace in {"", pod.namespace} and pod.namespace in members
        }
        used, expected = ledger.used.get(GPU, 0), sum(used_by_pod.values())
        if GPU in ledger.resources and used != expected:
            self._record(
                f"used: {_name(key)} counts {used} at revision {ledger.pods_revision}, when pods used {expected}"
            )
        return used_by_pod

    def _find_members(self, ledger: Ledger) -> Collection[str]:
        """Return the member namespaces with the hash of a ledger: all of a cap at some time, or one."""
        memberships = self._truth.memberships
        candidates = [*memberships, *({name} for name in frozenset().union(*memberships))]
        return next((names for names in candidates if hash_members(names) == ledger.namespaces_hash), ())

    def _end_excuses(self, key: LedgerKey, ledger: Ledger) -> None:
        members = self._find_members(ledger)
        for (foreign_key, uid), foreign in list(self._foreign.items()):
            pod = self._truth.list_pods_at(foreign.revision)[uid]
            is_counted = ledger.pods_revision >= foreign.revision and ledger.namespaces_revision >= foreign.entered
            if foreign_key == key and is_counted and pod.namespace in members:
                del self._foreign[foreign_key, uid]


def _compute_charged(ledger: Ledger, used_by_pod: Mapping[str, int], uid: str) -> int:
    """Return the GPUs that a ledger charges for a pod."""
    reservation = ledger.reservations.get(uid)
    return used_by_pod.get(uid, 0) + (reservation.compute_reserved().get(GPU, 0) if reservation else 0)


def _name(key: LedgerKey) -> str:
    return key.namespace or "the shared ledger"
