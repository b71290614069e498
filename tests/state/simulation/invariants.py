"""The invariants, which are checked after every step.

The claim of a pod is its size, or the larger size that an attempt with a reservation may still store. A ledger never
charges a pod less than its claim, and a name no less than the largest claim of its pods and what may remain beside it.
If policies and labels never change, the sum of all claims never exceeds a cap.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from tallygate.accounting.amounts import Amounts
from tallygate.state.ledger.ledger import Ledger, Operation
from tests.schedules import ViolationError
from tests.state.simulation.api_requests import Request, RequestState
from tests.state.simulation.claim_rules import count_claim
from tests.state.simulation.ground_truth import GroundTruth, Key, StoredLedger, Write, is_under
from tests.state.simulation.handlers import Phase
from tests.state.simulation.scenario import UNITS, B, X, Y
from tests.state.simulation.stored_objects import Claim
from tests.state.simulation.surge_invariants import SurgeInvariants


class Invariants:
    """Checks of the pods and ledgers that a step may have changed.

    A pod is `foreign` to a cap if it was not charged to it: its namespace entered the cap by a label, or it was stored
    under another policy. It is excused until a recount that must have counted it.
    """

    def __init__(self, truth: GroundTruth, requests: Mapping[str, list[Request]]) -> None:
        self._truth = truth
        self._requests = requests
        self._surges = SurgeInvariants(truth)
        self._foreign: dict[Key, dict[tuple[str, str], tuple[int, int]]] = defaultdict(dict)

    def compute_claim(self, key: Key, uid: str, name: str) -> int:
        """Return the claim of a pod on a resource under a cap."""
        truth = self._truth
        stored = truth.claims.get(uid)
        claim = truth.size_under(key, truth.pods.get(uid)) if stored is None else self._compute_right(key, stored)
        for request in self._requests.get(uid, ()):
            is_member = key.cap in truth.labels[request.namespace]
            is_reserved = name in request.resources and key in _list_reserved(request)
            if is_member and is_reserved and self._may_be_stored(request):
                claim = max(claim, self._compute_requested(key, request))
        return claim * UNITS[name]

    def _compute_requested(self, key: Key, request: Request) -> int:
        """Return the units that a request may use once the API server has stored it."""
        if request.claim is not None and not request.claim.is_bound:
            return 0
        return request.list_sizes(self._truth, key)[1]

    def _compute_right(self, key: Key, claim: Claim) -> int:
        """Return the units that a stored claim may use without a decision."""
        truth = self._truth
        if not is_under(truth.scenario, truth.labels, key, claim):
            return 0
        if not claim.is_bound:
            return 0
        is_admitted = not (claim.is_flexible and claim.has_ended)
        return count_claim(claim, truth.cap(key)) if claim.devices or is_admitted else 0

    def _list_group(self, uid: str) -> list[str]:
        """Return the consumers that share devices: a pod, and the claims that the scheduler created for it."""
        pod = self._truth.pods_of_claims.get(uid, uid)
        return [pod, *(claim for claim, owner in self._truth.pods_of_claims.items() if owner == pod)]

    def _compute_group(self, key: Key, group: Sequence[str], name: str) -> int:
        """Return the claim of a group: that of the pod or of its claims, whichever is larger."""
        pod, *claims = (self.compute_claim(key, uid, name) for uid in group)
        return max(pod, sum(claims))

    def _may_be_stored(self, request: Request) -> bool:
        pod = self._truth.pods.get(request.uid)
        if request.state is not RequestState.SENT and self._truth.now - request.arrived_at >= B:
            return False
        claim = self._truth.claims.get(request.uid)
        if request.claim is not None and request.operation is Operation.UPDATE:
            return claim is not None and claim.revision == request.old_revision
        if request.operation is Operation.CREATE:
            return pod is None and claim is None
        return pod is not None and pod.revision == request.old_revision

    def check_pod(self, key: Key, uid: str) -> None:
        """Check that a ledger charges a pod or claim at least its claim."""
        stored = self._truth.ledgers[key]
        if stored.ledger is None or stored.ledger.initializer:
            return
        group = self._list_group(uid)
        for name in stored.ledger.resources & UNITS.keys():
            claim = self._compute_group(key, group, name)
            charged = sum(_compute_charge(stored, each, name) for each in group)
            if charged < claim and not self._is_excused(key, uid, name):
                raise ViolationError(f"undercount: {key} charges {uid} {charged} {name}; its claim is {claim}")

    def _is_excused(self, key: Key, uid: str, name: str) -> bool:
        """Return whether a pod need not be charged yet. A new cap is active once all that it missed is counted."""
        return (uid, name) in self._foreign[key] and not self._truth.scenario.are_caps_new

    def check_write(self, write: Write) -> None:
        """Check every pod of a ledger that has just been written, and more if the write was a recount."""
        key, is_recount = write.key, write.is_recount
        ledger, truth = self._truth.ledgers[key].ledger, self._truth
        if ledger is None:
            return
        self._end_excuses(key)
        self._check_reserved(key, ledger)
        self._surges.check_write(write)
        uids = {*truth.pods, *truth.claims, *self._requests}
        for uid in uids:
            self.check_pod(key, uid)
        self._check_names(key, uids)
        if not ledger.initializer:
            truth.enforced.add(key.cap)
            self._check_total(key, uids)
        if is_recount:
            self._check_recount(key)

    def _check_recount(self, key: Key) -> None:
        """Check that a recount charges no pod more than the larger of its used and its requested amounts."""
        stored = self._truth.ledgers[key]
        for uid, reservation in stored.ledger.reservations.items() if stored.ledger else ():
            used, reserved = stored.used_by_pod.get(uid, Amounts()), reservation.compute_reserved()
            for name in reservation.requested:
                charged = used.get(name, 0) + reserved.get(name, 0)
                if charged > max(used.get(name, 0), reservation.requested[name]):
                    raise ViolationError(f"overcharge: {key} charges {uid} {charged} {name} right after a recount")
        self._check_recounted_names(key)

    def _check_recounted_names(self, key: Key) -> None:
        """Check that a recount charges no name more than its counted pod, or its largest attempt.

        The claim that the scheduler makes for a pod may remain beside the next pod of the name.
        """
        stored, truth = self._truth.ledgers[key], self._truth
        uids = {*truth.pods, *self._requests, *stored.used_by_pod}
        claims = {uid for uid, (_, is_claim, _) in truth.names_by_uid.items() if is_claim} | truth.pods_of_claims.keys()
        for pods in self._group_by_name(uids - claims).values():
            if stored.ledger is None or not frozenset(truth.pods_of_claims.values()).isdisjoint(pods):
                continue
            reservations = [each for uid in pods if (each := stored.ledger.reservations.get(uid)) is not None]
            for name in stored.ledger.resources & UNITS.keys() if reservations else ():
                used = sum(stored.used_by_pod.get(uid, Amounts()).get(name, 0) for uid in pods)
                charged = used + max(each.compute_reserved().get(name, 0) for each in reservations)
                most = max(used, *(each.requested.get(name, 0) for each in reservations))
                if charged > most:
                    raise ViolationError(f"overcharge: {key} charges {pods} {charged} {name}, and {most} are enough")

    def _group_by_name(self, uids: Iterable[str]) -> dict[object, list[str]]:
        """Return the pods, by the name that they share."""
        groups: dict[object, list[str]] = {}
        for uid in sorted(uids):
            groups.setdefault(self._truth.names_by_uid.get(uid, uid), []).append(uid)
        return groups

    def _check_names(self, key: Key, uids: Iterable[str]) -> None:
        """Check that a ledger charges a name the largest claim of its pods, and what may remain beside that pod."""
        stored, truth = self._truth.ledgers[key], self._truth
        if stored.ledger is None or stored.ledger.initializer or X not in stored.ledger.resources:
            return
        pods = {truth.pods_of_claims.get(uid, uid) for uid in (*uids, *stored.used_by_pod)}
        claims_by_pod: dict[str, list[str]] = {}
        for claim, pod in truth.pods_of_claims.items():
            claims_by_pod.setdefault(pod, []).append(claim)
        for group in self._group_by_name(pods).values():
            if len(group) < 2:  # else it is the check of one pod
                continue
            own = [claim for pod in group for claim in claims_by_pod.get(pod, ())]
            if any(self._is_excused(key, uid, X) for uid in (*group, *own)):
                continue
            needed = sum(self._compute_claims(key, [*group, *own]).values())
            used = sum(stored.used_by_pod.get(uid, Amounts()).get(X, 0) for uid in (*group, *own))
            reservations = stored.ledger.reservations
            reserved = sum(reservations[uid].compute_reserved().get(X, 0) for uid in own if uid in reservations)
            attempts = (reservations[uid].compute_reserved().get(X, 0) for uid in group if uid in reservations)
            charged = used + reserved + max(attempts, default=0)
            if charged < needed:
                raise ViolationError(f"undercount: {key} charges {group} {charged} {X}; their claim is {needed}")

    def _check_total(self, key: Key, uids: Iterable[str]) -> None:
        """Check that the sum of all claims does not exceed a cap and its surge, nor that of other pods the cap."""
        truth = self._truth
        if not truth.scenario.is_fixed:
            return
        claims = self._compute_claims(key, uids)
        hard, surge, total = truth.cap(key).hard, truth.surges[key.cap], sum(claims.values())
        if total > hard + surge:
            raise ViolationError(f"over: {key} allows {hard} and a surge of {surge}; the claims are {total}")
        others = sum(claim for uid, claim in claims.items() if (key, uid) not in truth.rolling)
        if others > hard:
            raise ViolationError(f"shared: {key} allows {hard}; the claims without those that roll are {others}")

    def _compute_claims(self, key: Key, uids: Iterable[str]) -> dict[str, int]:
        """Return the largest amounts that may exist at once, by pod or claim: one object of a name is stored at a time.

        The claims that the scheduler created for a pod may remain after it, beside the next pod of its name.
        """
        claims: dict[str, int] = {}
        largest: dict[object, tuple[int, str]] = {}
        for pod, *own in {group[0]: group for group in map(self._list_group, uids)}.values():
            claims[pod] = sum(self.compute_claim(key, uid, X) for uid in own)
            rest = self._compute_group(key, [pod, *own], X) - claims[pod]
            name = self._truth.names_by_uid.get(pod, pod)
            largest[name] = max(largest.get(name, (0, pod)), (rest, pod))
        for rest, pod in largest.values():
            claims[pod] += rest
        return claims

    def _check_reserved(self, key: Key, ledger: Ledger) -> None:
        """Check that a ledger reserves the largest amounts of each name, by plain arithmetic."""
        for resource in (X, Y):
            needed: dict[object, int] = {}
            for uid, each in ledger.reservations.items():
                name = uid if each.is_of_pod else self._truth.names_by_uid[uid]
                needed[name] = max(needed.get(name, 0), each.compute_reserved().get(resource, 0))
            reserved, total = ledger.reserved.get(resource, 0), sum(needed.values())
            if reserved > total:
                raise ViolationError(f"overcharge: {key} reserves {reserved} {resource}, and {total} are enough")
            if reserved < total:
                raise ViolationError(f"undercount: {key} reserves {reserved} {resource}, and its names need {total}")

    def check_stored(self, uid: str, request: Request) -> None:
        """Check a pod or claim that has just been stored, and excuse it under the caps to which it was not charged."""
        truth = self._truth
        for key in truth.ledgers:
            if self.compute_claim(key, uid, X):
                for name in (X, Y):
                    if key not in request.charged or name not in request.resources or self._has_entered(key, request):
                        self.excuse(key, uid, name)
            self.check_pod(key, uid)
            self._check_total(key, {*truth.pods, *truth.claims, uid})

    def _has_entered(self, key: Key, request: Request) -> bool:
        """Return whether the namespace has entered the cap by a label since the handler evaluated the request."""
        return self._truth.entered.get((request.namespace, key.cap), 0) > request.labels_revision

    def excuse(self, key: Key, uid: str, name: str) -> None:
        """Let a ledger charge less than the claim of a pod until the ledger must have counted it."""
        stored = self._truth.claims.get(uid) or self._truth.pods[uid]
        self._foreign[key][uid, name] = stored.revision, self._truth.namespace_log[-1].revision

    def _end_excuses(self, key: Key) -> None:
        ledger = self._truth.ledgers[key].ledger
        foreign = self._foreign[key]
        if ledger is None or not foreign:
            return
        for (uid, name), (revision, labels) in list(foreign.items()):
            counted_at = ledger.claims_revision if uid in self._truth.claims else ledger.pods_revision
            if counted_at >= revision and ledger.namespaces_revision >= labels and name in ledger.resources:
                del foreign[uid, name]


def _compute_charge(stored: StoredLedger, uid: str, name: str) -> int:
    """Return the amount that a ledger charges a consumer; the counted pod of its name may cover a pod (rule 13)."""
    used = stored.used_by_pod.get(uid, Amounts()).get(name, 0)
    reservation = stored.ledger.reservations.get(uid) if stored.ledger else None
    if reservation is None:
        return used
    holder = "" if reservation.is_of_pod else reservation.pod_uid
    covering = stored.used_by_pod.get(holder, Amounts()).get(name, 0)
    return max(used, covering) + reservation.compute_reserved().get(name, 0)


def _list_reserved(request: Request) -> Iterable[Key]:
    """Return the ledgers with a reservation for a request that the API server may store."""
    if request.state in {RequestState.ALLOWED, RequestState.SENT}:
        return request.reserved
    handler = request.handler
    is_running = handler is not None and handler.phase not in {Phase.RELEASE, Phase.OVER}
    return handler.confirmed if handler and is_running and request.state is RequestState.CALLING else ()
