"""Random histories of a shared ledger with guarantees, with the transitions of the product or wrong ones.

Namespaces create pods of one or two GPUs and delete them. One of them leaves the cap and returns, with its guarantee.
Replicas differ in their policies: some do not have the guarantees yet. Each decision is compared with plain arithmetic,
which lists all pods at the revision of the ledger and all reservations.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tallygate.accounting.amounts import NO_AMOUNTS, Amounts
from tallygate.state.ledger.expire import LiveRead
from tallygate.state.ledger.guarantees import AmountsByNamespace
from tallygate.state.ledger.ledger import Ledger, Operation
from tallygate.state.ledger.recount import UsageSnapshot, apply_guarantees
from tallygate.state.ledger.reserve import ReservationRequest
from tests.schedules import ViolationError
from tests.state.ledger.ledger_history import GPU, Creation, LedgerHistory, Rules, create_gpus

HARD = 12
GUARANTEED: Mapping[str, int] = {"owner": 5, "small": 2, "moving": 3}
_LENDER = "others"
_ALWAYS = frozenset({"owner", "small", _LENDER})
_STEPS = 300
_OLD_REPLICA = 0.3
"""The part of the attempts by replicas whose policy guarantees nothing yet."""


class GuaranteeRules(Rules):
    """The transitions of the product; a wrong variant replaces one."""

    def guarantee(self, ledger: Ledger, amounts: AmountsByNamespace, namespaces_hash: str) -> Ledger:
        """Return the ledger with these guarantees."""
        return apply_guarantees(ledger, amounts, namespaces_hash)


@dataclass
class GuaranteeWorld(LedgerHistory):
    """The world of one history; each step chooses by the random numbers of a seed."""

    rules: GuaranteeRules
    revision: int = 0
    pods: dict[str, tuple[str, int]] = field(default_factory=dict)  # namespace and size of each stored pod
    events: list[tuple[str, str, int]] = field(default_factory=list)  # UID, namespace, and the size or its negative
    members: frozenset[str] = _ALWAYS | {"moving"}
    refusals: int = 0

    def __post_init__(self) -> None:
        """Start with a counted ledger that has no guarantees yet."""
        super().__post_init__()
        self.counted_members = self.members
        self._recount(at=0)

    def play(self) -> None:
        """Take the steps, then let everything become quiet."""
        steps = (
            (self._create_pod, 16),
            (self._delete_pod, 7),
            (self._store, 14),
            (self._lose, 2),
            (self._recount, 10),
            (self._lead, 5),
            (self._move, 1),
            (self._tick, 4),
        )
        self._take_steps(steps, _STEPS)
        while self.in_flight:
            self._store()
        for _ in range(12):
            self._tick()
            self._recount(at=self.revision)
        self._check_charged(sum(size for namespace, size in self.pods.values() if namespace in self.members))

    def _create_ledger(self) -> Ledger:
        return Ledger(create_gpus(HARD), resources=frozenset({GPU}))

    def _check(self) -> None:
        """Check that what the ledger knows of guarantees is of its members."""
        if not self.ledger.guarantees.amounts.keys() <= self.counted_members:
            raise ViolationError(f"member: {set(self.ledger.guarantees.amounts)} have guarantees")

    def _resolve_guarantees(self) -> AmountsByNamespace:
        return {name: create_gpus(amount) for name, amount in GUARANTEED.items() if name in self.members}

    def _create_pod(self) -> None:
        namespace = self.random.choice(sorted(self.members))
        self.number += 1
        uid, size = f"pod-{self.number}", self.random.choice((1, 1, 2))
        if self._hash() != self.ledger.namespaces_hash:
            self._recount(at=self.revision)
        own = {} if self.random.random() < _OLD_REPLICA else self._resolve_guarantees()
        if not self.ledger.guarantees.counts(own):
            self._recount(at=self.revision)
        request = ReservationRequest(
            uid, namespace, uid, NO_AMOUNTS, create_gpus(size), f"n{self.number}", Operation.CREATE, create_gpus(HARD),
            namespaces_hash=self._hash(), guarantees=own,
        )  # fmt: skip
        guaranteed = {name: amounts[GPU] for name, amounts in (own or self.ledger.guarantees.amounts).items()}
        charged = self._list_charged()
        after = self.rules.reserve(self.ledger, request)
        most = _sum_with_guarantees(charged | {namespace: charged[namespace] + size}, guaranteed, namespace)
        if after is None and most <= HARD:
            raise ViolationError(f"refused: {namespace} gets no {size} more beside {charged}, guaranteed {guaranteed}")
        if after is None:
            return
        if most > HARD:
            raise ViolationError(f"over: {namespace} gets {size} more beside {charged}, guaranteed {guaranteed}")
        self.ledger = after
        if self.random.random() < 0.05:  # another cap rejects it
            self.ledger = self.rules.release(self.ledger, uid, request.attempt)
            return
        self.in_flight[uid] = Creation(uid, namespace, self.now, request)
        self._check_claims(namespace, guaranteed)

    def _check_claims(self, namespace: str, guaranteed: Mapping[str, int]) -> None:
        """Check that the pods that are stored or in flight leave the guarantees of others free."""
        claims = dict.fromkeys(self.members, 0)
        for owner, size in self.pods.values():
            claims[owner] = claims.get(owner, 0) + size
        for creation in self.in_flight.values():
            claims[creation.owner] = claims.get(creation.owner, 0) + creation.request.requested[GPU]
        own = {name: amount for name, amount in claims.items() if name in self.members}
        if _sum_with_guarantees(own, guaranteed, namespace) > HARD:
            raise ViolationError(f"claims: {namespace} was admitted, and {own} are used, guaranteed {guaranteed}")

    def _list_charged(self) -> dict[str, int]:
        """Return the charge of each member by its pods at the revision of the ledger, and its reservations."""
        charged = dict.fromkeys(self.members, 0)
        stored: dict[str, int] = {}
        for uid, namespace, size in self.events[: self.ledger.pods_revision]:
            stored[uid] = size
            if namespace in charged:
                charged[namespace] += size
        for reservation in self.ledger.reservations.values():
            amount = reservation.requested[GPU] - reservation.counted.get(GPU, 0)
            charged[reservation.namespace] = charged.get(reservation.namespace, 0) + amount
        return charged

    def _delete_pod(self) -> None:
        if self.pods:
            uid = self.random.choice(list(self.pods))
            namespace, size = self.pods.pop(uid)
            self.revision += 1
            self.events.append((uid, namespace, -size))

    def _resolve(self, creation: Creation, *, is_stored: bool) -> None:
        del self.in_flight[creation.uid]
        if is_stored:
            size = creation.request.requested[GPU]
            self.revision += 1
            self.pods[creation.uid] = creation.owner, size
            self.events.append((creation.uid, creation.owner, size))

    def _recount(self, at: int | None = None) -> None:
        revision = self.random.randint(self.ledger.pods_revision, self.revision) if at is None else at
        stored: dict[str, Amounts] = {}
        deleted: set[str] = set()
        used = dict.fromkeys(self.members, 0)
        for uid, namespace, size in self.events[:revision]:
            if size > 0:
                stored[uid] = create_gpus(size) if namespace in self.members else NO_AMOUNTS
            else:
                del stored[uid]
                deleted.add(uid)
            if namespace in used:
                used[namespace] += size
        separate = {name: create_gpus(amount) for name, amount in used.items() if name in GUARANTEED}
        snapshot = UsageSnapshot(
            revision, 0, self._hash(), frozenset({GPU}), stored, create_gpus(sum(used.values())), deleted,
            used_by_namespace=separate,
        )  # fmt: skip
        self.ledger, self.counted_members = self.rules.recount(self.ledger, snapshot), self.members

    def _lead(self) -> None:
        """Let the leader recount, and write its guarantees."""
        self._recount()
        self.ledger = self.rules.guarantee(self.ledger, self._resolve_guarantees(), self._hash())

    def _move(self) -> None:
        """Let a namespace leave the cap, or return to it. Nothing of it is in flight then."""
        for creation in [each for each in self.in_flight.values() if each.owner == "moving"]:
            self._resolve(creation, is_stored=True)
        self._recount(at=self.revision)
        self.members ^= {"moving"}

    def _hash(self) -> str:
        return ",".join(sorted(self.members))

    def _tick(self) -> None:
        """Let time pass, and make the live reads that are due."""
        for uid in self._pass_time():
            revisions = [number for number, event in enumerate(self.events, 1) if event[0] == uid]
            stored_at = revisions[-1] if uid in self.pods else None
            self.ledger = self.rules.expire(self.ledger, self.ages, LiveRead(uid, self.now, stored_at))


def _sum_with_guarantees(charged: Mapping[str, int], guaranteed: Mapping[str, int], besides: str) -> int:
    """Return all that is charged, with the unspent guarantees of all namespaces but one."""
    unspent = (max(0, amount - charged.get(name, 0)) for name, amount in guaranteed.items() if name != besides)
    return sum(charged.values()) + sum(unspent)
