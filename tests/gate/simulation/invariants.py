"""The invariants, which are checked after every write of a ledger and every stored pod or claim.

A ledger never charges a pod less than its entitlement; a pod and the claims that the scheduler made for it are one
group. The used amounts of a ledger are exactly those of the pods and claims that were stored at its revisions, and
those of devices as the replica that counted knew them. The sum of all entitlements never exceeds a cap. A replica
reserves nothing by a count that lacks a pod if the replica has seen the pod return to the cap with its namespace. A
workload that is admitted as a whole has room for all its pods (`gang_rooms`). No attempt charges more than its limits
allow, and a surge in its time (`surge_bounds`).
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from tallygate.accounting.amounts import Amounts
from tallygate.accounting.charge import ConsumerKind
from tallygate.admission.cap_index import find_key_value, get_policy_key
from tallygate.state.ledger.ledger import Ledger
from tallygate.state.ports import LedgerKey
from tests.accounting.claims import CLASS
from tests.gate.simulation.attempts import compute_most
from tests.gate.simulation.cluster_objects import Claim, Pod, name_cap
from tests.gate.simulation.counts import CountRecorder
from tests.gate.simulation.device_policies import Policies, list_ledger_caps
from tests.gate.simulation.entitlements import MEASURED, Sizes, compute_right, split_used
from tests.gate.simulation.ground_truth import GroundTruth, hash_members
from tests.gate.simulation.replica import SeenRevisions
from tests.gate.simulation.requests import Request
from tests.state.informers.pods import GPU

LedgerCheck = Callable[[LedgerKey, Ledger], Iterator[str]]
"""Returns the violations in a ledger that may have been stored a moment ago."""


class Foreign(NamedTuple):
    """A pod or claim that came under a cap uncharged, as it was stored then, and the last return of its namespace."""

    consumer: Pod | Claim
    entered: int

    @property
    def revision(self) -> int:
        """The revision at which it was stored."""
        return self.consumer.revision


class _Charges(NamedTuple):
    """A ledger, each pod with the claims that the scheduler made for it, and their entitlements and used amounts."""

    ledger: Ledger
    groups: Mapping[str, Sequence[str]]
    rights: Mapping[str, Sizes]
    used_by_uid: Mapping[str, Sizes]


class Invariants:
    """Checks of ledgers, reservations and stored objects; `violation` is the first that failed.

    `compute_rights` returns the entitlements under a ledger by UID. A pod or claim is foreign to a cap if it was
    accepted without the cap or returned to it with its namespace. It is excused until a recount must have counted it,
    with its later changes.
    """

    def __init__(
        self,
        truth: GroundTruth,
        compute_rights: Callable[[LedgerKey], Mapping[str, Sizes]],
        policies: Policies,
        recorder: CountRecorder,
        checks: Sequence[LedgerCheck],
    ) -> None:
        self._truth = truth
        self.violation = ""
        self._compute_rights = compute_rights
        self._recorder = recorder
        self._checks = checks
        self._caps = list_ledger_caps(policies.first.caps)
        self._most = {cap.key: cap.hard for cap in self._caps}
        if policies.has_reviews:
            self._most = {cap.key: Amounts({GPU: compute_most(cap.key, policies)}) for cap in self._caps}
        self.binding: Collection[str] = ()
        """The caps that are recorded, until a replica unloads them, where API servers ask about some caps only."""
        self._foreign: dict[tuple[LedgerKey, str], Foreign] = {}
        self._has_foreign: set[LedgerKey] = set()
        self._are_new = policies.are_new  # then pods above the limit were admitted before the caps were active
        self._are_registered = policies.are_registered
        self._last: dict[LedgerKey, Ledger] = {}
        self._names: dict[str, object] = {}
        """By UID, the names of what was stored once; it may be counted after its deletion."""

    def check_ledger(self, key: LedgerKey) -> None:
        """Check one ledger."""
        stored = self._truth.ledgers.get(key)
        if stored is not None:
            for violation in chain.from_iterable(check(key, stored[0]) for check in self._checks):
                self._record(f"{violation} ({_name(key)})")
        if stored is None or stored[0].initializer:
            return
        cap = get_policy_key(key.cap)
        if not self._are_registered or cap in self._truth.recorded:  # else an old ledger of a cap that was restored
            self._truth.enforced.setdefault(cap, self._truth.now)
        ledger, rights = stored[0], self._compute_rights(key)
        used_by_uid = self._check_used(key, ledger)
        self._end_excuses(key, ledger)
        self._check_reserved(key, ledger)
        self._check_recounted_names(key, ledger, used_by_uid)
        charges = _Charges(ledger, self._group({*rights, *used_by_uid, *ledger.reservations}), rights, used_by_uid)
        for name, most in self._most[key.cap].items():
            total = self._check_charges(key, charges, name)
            if total > most and key not in self._has_foreign and not self._are_new:
                self._record(f"over: {_name(key)} allows {most} {name}; the claims are {total}")

    def _check_charges(self, key: LedgerKey, charges: "_Charges", name: str) -> int:
        """Check what a ledger charges each pod, and each name; return the sum of all entitlements.

        The claims that the scheduler made for a pod may remain after it, beside the next one of its name.
        """
        ledger, is_counted = charges.ledger, _is_counted(charges.ledger, name)
        largest: dict[object, int] = {}
        of_claims: dict[object, int] = {}
        excused: set[object] = set()
        for pod, uids in sorted(charges.groups.items()):
            parts = {uid: charges.rights[uid].get(name, 0) for uid in uids if uid in charges.rights}
            right, own = _sum_group(pod, parts), sum(part for uid, part in parts.items() if uid != pod)
            shared = self._find_name(ledger, pod)
            largest[shared] = max(largest.get(shared, 0), right - own)
            of_claims[shared] = of_claims.get(shared, 0) + own
            charged = sum(_compute_charged(ledger, charges.used_by_uid, uid, name) for uid in uids)
            if self._is_excused(key, uids):
                excused.add(shared)
            elif charged < right and is_counted:
                self._record(f"undercount: {_name(key)} charges {pod} {charged} {name}; its claim is {right}")
        charged_by_name = self._sum_by_name(charges, name) if is_counted else {}
        for shared, charged in charged_by_name.items():
            right = largest[shared] + of_claims[shared]
            if charged < right and shared not in excused:
                self._record(f"undercount: {_name(key)} charges {shared} {charged} {name}; its claim is {right}")
        return sum(largest.values()) + sum(of_claims.values())

    def _find_name(self, ledger: Ledger, uid: str) -> object:
        """Return the name of a pod or claim: one object of a name is stored at a time. Others are alone.

        What was requested and is not stored has a reservation.
        """
        stored = self._truth.pods.get(uid) or self._truth.claims.get(uid)
        reservation = ledger.reservations.get(uid)
        if reservation is not None and (reservation.is_of_pod or reservation.workload or reservation.workload_kind):
            return uid
        if stored is not None:
            self._names[uid] = stored.namespace, isinstance(stored, Claim), stored.name
        if reservation is None or uid in self._names:
            return self._names.get(uid, uid)
        return reservation.namespace, reservation.kind is ConsumerKind.CLAIM, reservation.name

    def _sum_by_name(self, charges: "_Charges", name: str) -> dict[object, int]:
        """Return what a ledger charges each name of pods, and the claims that the scheduler made for these."""
        reservations = charges.ledger.reservations
        charged: dict[object, int] = {}
        attempts: dict[object, int] = {}
        for pod, uids in charges.groups.items():
            shared = self._find_name(charges.ledger, pod)
            for uid in uids:
                reserved = reservations[uid].compute_reserved().get(name, 0) if uid in reservations else 0
                own = 0 if uid == pod else reserved
                charged[shared] = charged.get(shared, 0) + charges.used_by_uid.get(uid, {}).get(name, 0) + own
                attempts[shared] = max(attempts.get(shared, 0), reserved if uid == pod else 0)
        return {shared: amount + attempts[shared] for shared, amount in charged.items()}

    def _check_recounted_names(self, key: LedgerKey, ledger: Ledger, used_by_uid: Mapping[str, Sizes]) -> None:
        """Check that a recount charged the earlier attempts of a name no more than its counted pod, or the largest.

        The claim that the scheduler makes for a pod may remain beside the next pod of its name.
        """
        before = self._last.get(key)
        self._last[key] = ledger
        if before is None or before.initializer or before.pods_revision == ledger.pods_revision:
            return
        served = {self._find_name(ledger, pod) for pod in self._truth.pods_of_claims.values()}
        for uid, each in ledger.reservations.items():
            shared, earlier = self._find_name(ledger, uid), before.reservations.get(uid)
            if earlier is None or earlier.attempt != each.attempt or each.shared_name is None or shared in served:
                continue
            for name in self._most[key.cap] if each.kind is ConsumerKind.POD else ():
                used = sum(
                    parts.get(name, 0) for pod, parts in used_by_uid.items() if self._find_name(ledger, pod) == shared
                )
                charged, requested = used + each.compute_reserved().get(name, 0), each.requested.get(name, 0)
                if charged > max(used, requested):
                    self._record(f"overcharge: {_name(key)} charges {shared} {charged} {name} for {uid}")

    def _check_reserved(self, key: LedgerKey, ledger: Ledger) -> None:
        """Check that a ledger reserves the largest amounts of each name, by plain arithmetic."""
        for resource in self._most[key.cap]:
            needed: dict[object, int] = {}
            for uid, each in ledger.reservations.items():
                name = self._find_name(ledger, uid)
                needed[name] = max(needed.get(name, 0), each.compute_reserved().get(resource, 0))
            reserved, total = ledger.reserved.get(resource, 0), sum(needed.values())
            if reserved > total:
                self._record(f"overcharge: {_name(key)} reserves {reserved} {resource}, and {total} are enough")
            if reserved < total:
                self._record(f"undercount: {_name(key)} reserves {reserved} {resource}, and its names need {total}")

    def _group(self, uids: Collection[str]) -> dict[str, list[str]]:
        """Return the UIDs by that of the pod for which the scheduler made a claim; others are alone."""
        groups: dict[str, list[str]] = {}
        for uid in sorted(uids):
            groups.setdefault(self._truth.pods_of_claims.get(uid, uid), []).append(uid)
        return groups

    def _is_excused(self, key: LedgerKey, uids: Collection[str]) -> bool:
        return any((key, uid) in self._foreign for uid in uids)

    def check_stored(self, uid: str, reserved: Collection[LedgerKey], namespaces_revision: int) -> None:
        """Check a pod or claim that has just been stored.

        The ledgers `reserved` admitted it, by the namespaces as of `namespaces_revision`.
        """
        pod: Pod | Claim = self._truth.pods.get(uid) or self._truth.claims[uid]
        for key in self._list_keys(pod.namespace):
            was_seen = self._find_entered(key, pod.namespace) <= namespaces_revision
            if key not in reserved and was_seen and find_key_value(key.cap) is not None:
                self._record(f"uncharged: {uid} is stored in a group that its replica had seen, and did not charge")
            if key not in reserved or self._find_entered(key, pod.namespace) > namespaces_revision:
                self._excuse(key, pod)
            self.check_ledger(key)

    def check_asked(self, request: Request, loaded: Collection[str]) -> None:
        """Check that no API server skips the gate for a cap that is recorded, and that every replica has loaded."""
        for key in self._list_seen_keys(request):
            if key.cap in self._truth.recorded and key.cap in loaded:
                uid = request.uid
                self._record(f"unasked: the gate is not asked about {uid} in {_name(key)}, and its cap is recorded")

    def check_binding_caps(self, request: Request) -> None:
        """Check that what has just been stored is charged under each cap that is recorded, and loaded since."""
        for key in self._list_seen_keys(request):
            if get_policy_key(key.cap) in self.binding and key not in request.reserved:
                self._record(
                    f"unasked: {request.uid} is stored without a charge in {_name(key)}, and its cap is active"
                )

    def _list_seen_keys(self, request: Request) -> list[LedgerKey]:
        """Return the ledgers of the caps whose labels were known to who decided on a request: a server or a replica."""
        keys = self._list_keys(request.namespace)
        return [key for key in keys if self._find_entered(key, request.namespace) <= request.namespaces_revision]

    def end_excuses(self, caps: Collection[str]) -> None:
        """Excuse nothing that is stored now under these caps: their ledgers become active by a count that has it."""
        kept = {each: foreign for each, foreign in self._foreign.items() if get_policy_key(each[0].cap) not in caps}
        self._foreign = kept
        self._has_foreign = {key for key in self._has_foreign if get_policy_key(key.cap) not in caps}

    def excuse_returned(self, namespace: str, cap: str) -> None:
        """Excuse the pods of a namespace that has just returned to a cap."""
        consumers: list[Pod | Claim] = [*self._truth.pods.values(), *self._truth.claims.values()]
        for key in self._list_keys(namespace):
            for pod in consumers:
                if name_cap(key.cap) == cap and pod.namespace == namespace:
                    self._excuse(key, pod)

    def check_guarded(self, key: LedgerKey, uid: str, attempt: str, began_at: float) -> None:
        """Check that an attempt that began after a cap was active is not admitted by the ledger of a new cap (rule 7).

        It is not, either, if the ledger that admitted it is lost meanwhile.
        """
        stored = self._truth.ledgers.get(key)
        reservation = stored[0].reservations.get(uid) if stored else None
        if stored is None or reservation is None or reservation.attempt != attempt or not stored[0].counts_first:
            return
        if began_at > self._truth.enforced.get(get_policy_key(key.cap), began_at):
            self._record(f"unguarded: {_name(key)} reserves for {uid} without a limit, and its cap was active")

    def check_reservation(self, key: LedgerKey, uid: str, attempt: str, loaded_at: int, seen: SeenRevisions) -> None:
        """Check that the count behind a reservation was made after the cap was active in the replica.

        The count must include the pods of returned namespaces if the replica had seen both before the attempt. It may
        lack a pod that a replica accepted uncharged after the return, before it had seen the return.
        """
        stored = self._truth.ledgers.get(key)
        reservation = stored[0].reservations.get(uid) if stored else None
        if stored is None or reservation is None or reservation.attempt != attempt:
            return
        ledger = stored[0]
        if ledger.counts_first:
            return
        claims = [each.revision for each in self._truth.list_claims(key) if (CLASS, GPU) in ledger.mappings]
        has_newer_claims = any(ledger.claims_revision < each <= loaded_at for each in claims)
        if ledger.pods_revision < loaded_at or has_newer_claims:
            self._record(f"unseen: {_name(key)} reserves for {uid} by a count from before its cap was active")
        used_by_pod, members = self._check_used(key, ledger), self._find_members(ledger)
        for (foreign_key, foreign_uid), foreign in self._foreign.items():
            right = self._find_right(foreign_uid)
            is_claim = isinstance(foreign.consumer, Claim)
            was_seen = foreign.revision <= (seen.claims if is_claim else seen.pods)
            if foreign_key != key or not right or not was_seen or foreign.entered > seen.namespaces:
                continue
            has_left = foreign.consumer.namespace not in members
            came_later = foreign.revision > foreign.entered
            if ledger.namespaces_revision >= foreign.entered and (came_later or has_left):
                continue
            if _compute_charged(ledger, used_by_pod, foreign_uid, GPU) < right:
                self._record(f"unseen: {_name(key)} reserves for {uid} by a count from before {foreign_uid} returned")

    def _find_right(self, uid: str) -> int:
        """Return the GPUs of a stored pod or claim; nothing for a claim that may belong to a pod."""
        pod, claim = self._truth.pods.get(uid), self._truth.claims.get(uid)
        if claim is not None:
            return 0 if claim.is_annotated else compute_right(self._truth, claim)[GPU]
        return pod.used if pod is not None else 0

    def _list_keys(self, namespace: str) -> list[LedgerKey]:
        """Return the ledgers of the caps of which a namespace is a member now."""
        keys = [LedgerKey(cap.key, "" if cap.definition.shared else namespace) for cap in self._caps]
        return [key for key in keys if self._truth.is_member(key, namespace)]

    def _find_entered(self, key: LedgerKey, namespace: str) -> int:
        return self._truth.entered.get((namespace, name_cap(key.cap)), 0)

    def _excuse(self, key: LedgerKey, pod: Pod | Claim) -> None:
        self._foreign[key, pod.uid] = Foreign(pod, self._find_entered(key, pod.namespace))
        self._has_foreign.add(key)

    def _record(self, violation: str) -> None:
        self.violation = self.violation or violation

    def _check_used(self, key: LedgerKey, ledger: Ledger) -> dict[str, Sizes]:
        """Check the used amounts of a ledger; return the part of each pod and claim in them."""
        count, members = self._recorder.find(ledger), self._find_members(ledger)
        members = [name for name in members if key.namespace in {"", name}]
        used_by_uid = split_used(self._truth, count, ledger, members)
        at = f"at revisions {ledger.pods_revision} and {ledger.claims_revision}"
        claims = self._truth.claim_history.list_at(count.claims_revision).values()
        for each in claims:
            is_known = all(count.found.get(device, device) is not None for device in each.devices)
            if each.namespace in members and not is_known and count.slices_revision < each.revision:
                self._record(f"used: {_name(key)} counts {each.uid} by slices at {count.slices_revision}, before it")
        if any(each.revision > ledger.claims_revision for each in claims):
            self._record(f"used: {_name(key)} records claims {at}, and counts those at {count.claims_revision}")
        for name in self._most[key.cap]:
            used, expected = ledger.used.get(name, 0), sum(each.get(name, 0) for each in used_by_uid.values())
            if name in ledger.resources and used != expected:
                self._record(f"used: {_name(key)} counts {used} {name} {at}, when {expected} were used")
        return used_by_uid

    def _find_members(self, ledger: Ledger) -> Collection[str]:
        """Return the member namespaces with the hash of a ledger: all of a cap at some time, or one."""
        memberships = self._truth.memberships
        candidates = [*memberships, *({name} for name in frozenset().union(*memberships))]
        return next((names for names in candidates if hash_members(names) == ledger.namespaces_hash), ())

    def _end_excuses(self, key: LedgerKey, ledger: Ledger) -> None:
        members = self._find_members(ledger)
        for (foreign_key, uid), foreign in list(self._foreign.items()):
            if foreign_key != key:
                continue
            is_claim = isinstance(foreign.consumer, Claim)
            counted_at = ledger.claims_revision if is_claim else ledger.pods_revision
            is_counted = counted_at >= foreign.revision and ledger.namespaces_revision >= foreign.entered
            if is_counted and foreign.consumer.namespace in members:
                del self._foreign[foreign_key, uid]


def _compute_charged(ledger: Ledger, used_by_uid: Mapping[str, Sizes], uid: str, name: str) -> int:
    """Return the amount that a ledger charges for a pod or claim; the counted pod of its name may cover a pod."""
    reservation, used = ledger.reservations.get(uid), used_by_uid.get(uid, {}).get(name, 0)
    if reservation is None:
        return used
    holder = "" if reservation.is_of_pod else reservation.pod_uid
    return max(used, used_by_uid.get(holder, {}).get(name, 0)) + reservation.compute_reserved().get(name, 0)


def _sum_group(pod: str, rights: Mapping[str, int]) -> int:
    """Return the entitlement of a group: that of the pod or of the claims for it, whichever is larger."""
    return max(rights.get(pod, 0), sum(right for uid, right in rights.items() if uid != pod))


def _is_counted(ledger: Ledger, name: str) -> bool:
    """Return whether a ledger counts a name: it may not know the capacities of devices."""
    return name not in MEASURED or name in ledger.resources


def _name(key: LedgerKey) -> str:
    return key.namespace or "the shared ledger"
