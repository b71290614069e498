"""One admission request in a replica, from the call of the API server to the response, in the steps of the gate.

Any other step of the world may come between two steps of a handler; a handler without steps is slow or frozen. It goes
on if the API server no longer waits for its response.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from msgspec.structs import replace

from tallygate.accounting.amounts import NO_AMOUNTS, Amounts
from tallygate.accounting.charge import ConsumerKind
from tallygate.accounting.claim_charge import NO_MAPPINGS, ClassMappings
from tallygate.state.ledger.ledger import Ledger, Operation
from tallygate.state.ledger.recount import NO_POD, CountedPod, StaleSnapshot, UsageSnapshot
from tallygate.state.ledger.reserve import (
    Deferred,
    DeviceTerms,
    Exceeded,
    Prerequisite,
    ReservationRequest,
    Reserved,
)
from tests.schedules import ViolationError
from tests.state.simulation.annotation_rules import find_annotation
from tests.state.simulation.api_requests import Request
from tests.state.simulation.claim_rules import is_unchanged
from tests.state.simulation.class_rules import list_sources
from tests.state.simulation.ground_truth import (
    GroundTruth,
    Key,
    Reserving,
    StoredLedger,
    Write,
    amounts,
    hash_members,
    list_keys,
)
from tests.state.simulation.policies import Policy
from tests.state.simulation.replica import Replica
from tests.state.simulation.reservation_checks import (
    OwnLimits,
    check_deferral,
    check_limits,
    check_old_pods,
    check_rejection,
)
from tests.state.simulation.rules import Rules, UsedByPod
from tests.state.simulation.surge_attempts import NO_SURGE, RolloutView, SurgeAttempt
from tests.state.simulation.surge_invariants import exceeds_limit, may_be_over
from tests.state.simulation.surge_rules import may_surge


class Phase(StrEnum):
    """The next work of a handler."""

    CHECK = "check"
    RESERVE = "reserve"
    READ_RECORD = "read the record"
    WAIT = "wait"
    RELEASE = "release"
    OVER = "over"


@dataclass
class Handler:
    """A call of the webhook, in one replica, under one policy, with the limits at its begin.

    It is one attempt, and a second one with a surge if `exceeded` limits reject a pod of a controller that rolls.
    """

    attempt: str
    request: Request
    replica: Replica
    policy: Policy
    truth: GroundTruth
    rules: Rules
    send: Callable[[Write], bool]
    evaluated: list[Key] = field(default_factory=list)
    confirmed: dict[Key, None] = field(default_factory=dict)
    tried: dict[Key, None] = field(default_factory=dict)
    outcome: bool | None = None
    token: int = 0
    is_allowed: bool = False
    surge: SurgeAttempt = NO_SURGE
    exceeded: Mapping[Key, Amounts] = field(default_factory=dict)
    unguarded: dict[Key, None] = field(default_factory=dict)
    _in_flight: Write | None = None
    _is_releasing: bool = False
    _new_caps: dict[int, bool] = field(default_factory=dict)
    """Whether each cap was never active, by a read of the record in this attempt."""

    def __post_init__(self) -> None:
        replica = self.replica
        self.called_at, self.limits_at = replica.read_time(), replica.choose_time()
        self.annotations, self.annotations_revision = replica.annotations, replica.labels_revision
        self.class_state, self.enforced = replica.class_state, frozenset(self.truth.enforced)
        self._start()
        if self.request.claim is not None and self._has_classes and not self.rules.is_class_known(self.class_state):
            self.phase = Phase.RELEASE

    @property
    def name(self) -> str:
        """The attempt's nonce without the time of the replica's clock, which no rule may use."""
        return self.attempt.partition("@")[0]

    @property
    def _has_classes(self) -> bool:
        return self.truth.scenario.has_classes

    def _start(self) -> None:
        self.labels, self.labels_revision = self.replica.labels, self.replica.labels_revision
        keys = list_keys(self.truth.scenario, self.labels, self.request.namespace)
        self.evaluated = [key for key in keys if key.cap in self.policy.caps]
        self.keys = [key for key in self.evaluated if self._is_charged(key)]
        self.position = 0
        self.phase = Phase.CHECK if len(self.keys) > 1 else Phase.RESERVE

    def _is_charged(self, key: Key) -> bool:
        """Return whether the request may change what a cap counts."""
        old, new = self.request.old_claim, self.request.claim
        if new is None:
            return True
        if old is None:
            return self.rules.charges_own or not new.made_for
        return (self._has_classes or self._is_decided(key)) and not self.rules.is_unchanged(old, new)

    def step(self, choice: int) -> str:
        """Proceed up to the next point at which another step may come between; return a line of the story, or none."""
        match self.phase:
            case Phase.CHECK:
                return self._check()
            case Phase.RESERVE:
                return self._reserve(recounts=choice % 4 == 0)
            case Phase.READ_RECORD:
                return self._read_record()
            case Phase.WAIT:
                return self._wait(reads=choice % 3 == 0)
            case Phase.RELEASE:
                return self._release(reads=choice % 3 == 0)
            case _:
                return ""

    def give_up(self) -> str:
        """Reach the deadline of the attempt."""
        if self.phase in {Phase.RELEASE, Phase.OVER}:
            return ""
        self.phase = Phase.RELEASE
        return "reaches its deadline"

    def _check(self) -> str:
        exceeded: dict[Key, Amounts] = {}
        for key in self.keys:
            stored = self.truth.ledgers[key]
            if stored.ledger is None:
                continue
            result = self._decide(key, stored.ledger, self._count_pod(key, stored)[2])
            if isinstance(result, Exceeded):
                self._check_rejection(key, stored.ledger)
                exceeded[key] = result.excess
        if exceeded:
            return f"{self._reject(exceeded)} before any write"
        self.phase = Phase.RESERVE
        return "exceeds no cap yet"

    def _reserve(self, *, recounts: bool) -> str:
        if self.position == len(self.keys):
            self.is_allowed, self.phase = True, Phase.OVER
            return "allows"
        key = self.keys[self.position]
        if key in self.confirmed:
            self.position += 1
            return f"has {key} already"
        stored = self.truth.ledgers[key]
        if self._must_read_record(key, stored.ledger):
            self.phase = Phase.READ_RECORD
            return f"finds {'no ledger' if stored.ledger is None else 'the ledger of a new cap'} {key}"
        if stored.ledger is None:
            return self._create_ledger(key, stored.version)
        if self._counts_nothing(key, stored.ledger):
            self.position += 1
            return f"counts nothing in {key}"
        ledger, used_by_pod, covered = self._count_pod(key, stored)
        result = self._decide(key, ledger, covered)
        needs_recount = isinstance(result, Deferred) and result.prerequisite not in {
            Prerequisite.ACTIVATE,
            Prerequisite.CATCH_UP,
        }
        if (needs_recount or recounts) and not self.request.is_own:
            snapshot = self.replica.take_snapshot(key, self.policy, ledger)
            after = self.rules.recount(ledger, snapshot)
            holder = self._find_holder(after, snapshot)
            if isinstance(after, StaleSnapshot):
                if not holder.part:
                    return ""
            else:
                ledger, used_by_pod = after, self.rules.split_used(used_by_pod, after, snapshot)
            result = self._decide(key, ledger, holder=holder)
        write = Write(key, ledger, used_by_pod, stored.version, f"the reservation of {self.request.uid}")
        if isinstance(result, Reserved) and result.needs_no_write and self._allocates(key, stored.ledger):
            return self._pass_allocation(write, is_recounted=ledger is not stored.ledger)
        return self._apply(result, write)

    def _must_read_record(self, key: Key, ledger: Ledger | None) -> bool:
        """Return whether the record decides if a ledger is that of a new cap, and this attempt has not read it."""
        if not self.truth.scenario.are_caps_new or key.cap in self._new_caps:
            return False
        return ledger is None or ledger.activation.is_new

    def _read_record(self) -> str:
        key = self.keys[self.position]
        is_new = self._new_caps[key.cap] = self.rules.is_cap_new(key.cap in self.truth.recorded)
        self.phase = Phase.RESERVE
        return f"reads that cap {key.cap} {'is new' if is_new else 'was active'}"

    def _create_ledger(self, key: Key, version: int) -> str:
        """Create a missing ledger: that of a new cap with the reservation, any other one without."""
        is_new = self._new_caps.get(key.cap, False)
        ledger = self.rules.initialize(self._list_limits(key), self.attempt, self.policy.list_surge(key), is_new)
        if is_new:
            return self._apply(self._decide(key, ledger), Write(key, ledger, {}, version, "the ledger of a new cap"))
        self._send(Write(key, ledger, {}, version, "the new ledger"))
        self.phase = Phase.RELEASE
        return f"finds no ledger {key} and creates it"

    def _counts_nothing(self, key: Key, ledger: Ledger) -> bool:
        """Return whether a claim counts nothing here by its class, or its allocation changes nothing that counts."""
        if self.request.claim is None or not self._has_classes:
            return False
        is_fixed = self.request.old_claim is not None and not self._allocates(key, ledger)
        return is_fixed or not self._select_mappings(ledger)

    def _select_mappings(self, ledger: Ledger) -> ClassMappings:
        """Return the mappings of the class by which this attempt counts."""
        return self.rules.select_mappings(self.class_state, ledger.mappings) if self._has_classes else NO_MAPPINGS

    def _decide(
        self, key: Key, ledger: Ledger, covered: Amounts = NO_AMOUNTS, holder: CountedPod = NO_POD
    ) -> Reserved | Exceeded | Deferred:
        return self.rules.reserve(ledger, replace(self._create_request(key, ledger, covered), holder=holder))

    def _find_holder(self, after: Ledger | StaleSnapshot, snapshot: UsageSnapshot) -> CountedPod:
        """Return the counted pod of the name of the pod that the request creates."""
        request = self.request
        if request.claim is not None or request.operation is not Operation.CREATE:
            return NO_POD
        return self.rules.find_holder(after, snapshot, (str(request.namespace), request.name), request.uid)

    def _count_pod(self, key: Key, stored: StoredLedger) -> tuple[Ledger, UsedByPod, Amounts]:
        """Return the recounted ledger of a scheduler's claim, its split, and the part of the pod in it."""
        ledger, request = stored.ledger, self.request
        assert ledger is not None
        if not request.is_own or request.claim is None or ledger.initializer:
            return ledger, stored.used_by_pod, NO_AMOUNTS
        snapshot = self.replica.take_snapshot(key, self.policy, ledger)
        after = self.rules.recount(ledger, snapshot)
        covered = self.rules.find_covered(ledger, after, snapshot, request.claim.made_for)
        if isinstance(after, StaleSnapshot):
            return ledger, stored.used_by_pod, covered
        return after, self.rules.split_used(stored.used_by_pod, after, snapshot), covered

    def _is_decided(self, key: Key) -> bool:
        """Return whether the allocation of a claim needs a decision under a cap, whatever its ledger counts."""
        claim = self.request.old_claim
        return claim is not None and self.rules.is_decided(claim, self.truth.cap(key))

    def _allocates(self, key: Key, ledger: Ledger) -> bool:
        """Return whether it is an allocation that needs a decision: because of the claim, or of new mappings."""
        if self._is_decided(key) or self.request.old_claim is None or not self._has_classes:
            return self._is_decided(key)
        sources = list_sources(self._select_mappings(ledger))
        return not ledger.initializer and self.rules.is_decided_again(ledger, sources)

    def _pass_allocation(self, write: Write, *, is_recounted: bool) -> str:
        """Allow an allocation without a reservation by a ledger that is stored as it is: a recount is stored first."""
        if not is_recounted or not self.rules.stores_counts:
            self.confirmed[write.key] = None
            self.position += 1
            return f"needs no reservation in {write.key}"
        write.name = f"the recount for {self.request.uid}"
        if not self._send(write):
            return ""
        self.phase = Phase.WAIT
        return f"sends its recount to {write.key}, on version {write.version}"

    def _apply(self, result: Reserved | Exceeded | Deferred, write: Write) -> str:
        key = write.key
        if isinstance(result, Exceeded):
            self._check_rejection(key, write.ledger)
            return self._reject({key: result.excess})
        if isinstance(result, Reserved) and result.needs_no_write:
            self.position += 1
            return f"needs no reservation in {key}"
        if isinstance(result, Reserved):
            self._check_reservation(write, result.ledger)
            write.ledger = result.ledger
            if not self._send(write):
                return ""
            self.tried[key] = None
            self.phase = Phase.WAIT
            return f"sends its reservation to {key}, on version {write.version}"
        if result.prerequisite is Prerequisite.ACTIVATE:
            self.phase = Phase.RELEASE
            return f"finds {key} initializing"
        check_deferral(key, write.ledger, self._create_request(key, write.ledger), result.prerequisite)
        if self.replica.labels_revision == self.labels_revision:
            return ""
        self._start()
        return f"starts again with newer namespaces ({result.prerequisite})"

    def _reject(self, exceeded: Mapping[Key, Amounts]) -> str:
        old, new = self.request.old_claim, self.request.claim
        for key in exceeded:
            if old is not None and new is not None:
                is_fixed = not (old.is_flexible or self.truth.cap(key).by_allocation or self._has_classes)
                if is_fixed or is_unchanged(old, new):
                    raise ViolationError(f"refused: {key} rejects devices of {new.uid} that were admitted")
        self.phase = Phase.RELEASE
        if self.surge is NO_SURGE:
            self.exceeded = exceeded
        return f"exceeds {', '.join(map(str, exceeded))}"

    def _begin_second_attempt(self) -> bool:
        """Begin an attempt with a surge, if the pod was rejected and its controller rolls (rule 12)."""
        request, exceeded = self.request, self.exceeded
        self.exceeded = {}
        if not exceeded or not self.rules.may_surge(request.operation, request.claim is not None):
            return False
        view = RolloutView(self.truth, self.replica, request.namespace, request.template)
        surge = view.begin_attempt(exceeded, self.policy)
        if surge is None:
            return False
        if may_surge(request.operation, request.claim is not None):
            self.truth.rolling |= {(key, request.uid) for key in surge.keys if view.is_rolling(key)}
        self.surge, self.attempt = surge, f"{self.name}s@{self.attempt.partition('@')[2]}"
        self.confirmed, self.position = {}, 0
        self.phase = Phase.CHECK if len(self.keys) > 1 else Phase.RESERVE
        return True

    def _check_reservation(self, write: Write, after: Ledger) -> None:
        """Check a reservation that is to be written, and record whether it needs a surge, or passes no guard."""
        key, before = write.key, write.ledger
        if before.counts_first:
            self.unguarded[key] = None
            return
        self.unguarded.pop(key, None)
        write.reserving = Reserving(
            needs_surge=check_limits(key, before, after, self._create_request(key, before), self._find_own_limits(key)),
            was_above=exceeds_limit(before),
            is_recounted=before is not self.truth.ledgers[key].ledger,
            attempted_at=self.surge.attempted_at,
            ticks=self.policy.surge_ticks[key.cap],
        )
        check_old_pods(write, self.truth, self.replica)

    def _check_rejection(self, key: Key, ledger: Ledger) -> None:
        """Check that a pod which surges is rejected only if it has no room, or if the surge may be over."""
        ticks = self.policy.surge_ticks[key.cap]
        if not (exceeds_limit(ledger) and may_be_over(self.truth, key, self.surge.attempted_at, ticks)):
            check_rejection(key, ledger, self._create_request(key, ledger), self._find_own_limits(key))

    def _find_own_limits(self, key: Key) -> OwnLimits:
        """Return the limits of this attempt by plain arithmetic, from the ground truth of its view."""
        is_rolling = key in self.surge.keys and (key, self.request.uid) in self.truth.rolling
        annotations = self.truth.find_annotations(self.annotations_revision)
        annotation = find_annotation(annotations, *key, self.called_at)
        hard = self.policy.list_limits(key, self.called_at, annotation)
        return OwnLimits(hard, self.policy.list_surge(key) if is_rolling else None)

    def _wait(self, *, reads: bool) -> str:
        key = self.keys[self.position]
        if self.outcome is None and not reads:
            return ""
        is_stored = self.outcome
        if is_stored is None:
            ledger = self.truth.ledgers[key].ledger
            is_stored = ledger is not None and self.rules.is_stored(ledger, self.request.uid, self.attempt)
        self.outcome = self._in_flight = None
        if is_stored:
            self.confirmed[key] = None
            self.position += 1
        self.phase = Phase.RESERVE
        return f"{'has its write' if is_stored else 'was not stored'} in {key}"

    def _release(self, *, reads: bool) -> str:
        if not self.tried:
            if self._begin_second_attempt():
                return "tries again with a surge"
            self.phase = Phase.OVER
            return "is done"
        key = next(iter(self.tried))
        if self._in_flight is not None and self.outcome is None and not reads:
            return ""
        is_released = self._in_flight is not None and self.outcome is not False and self._is_releasing
        self.outcome = self._in_flight = None
        stored = self.truth.ledgers[key]
        after = stored.ledger and self.rules.release(stored.ledger, self.request.uid, self.attempt)
        if is_released or after is None or after is stored.ledger:
            del self.tried[key]
            self._is_releasing = False
            return f"leaves {key}"
        self._is_releasing = True
        name = f"the release of {self.request.uid}"
        self._send(Write(key, after, stored.used_by_pod, stored.version, name))
        return f"sends the release of its reservation to {key}"

    def _send(self, write: Write) -> bool:
        self._in_flight = write

        def answer(is_stored: bool) -> None:  # noqa: FBT001  # a callback with one argument
            if self._in_flight is write:
                self.outcome = is_stored

        write.answer = answer
        return self.send(write)

    def _create_request(self, key: Key, ledger: Ledger, covered: Amounts = NO_AMOUNTS) -> ReservationRequest:
        request = self.request
        old_size, size = request.list_sizes(self.truth, key, self.rules)
        if request.claim is not None and self._has_classes and not self._select_mappings(ledger):
            old_size = size = 0
        return ReservationRequest(
            request.uid,
            str(request.namespace),
            request.name,
            amounts(old_size, self.policy.resources),
            amounts(size, self.policy.resources),
            self.attempt,
            request.operation,
            self._list_limits(key),
            namespaces_revision=self.labels_revision,
            namespaces_hash=hash_members(self.truth.scenario, self.labels, key),
            is_shared=self.truth.cap(key).is_shared,
            min_pods_revision=self.replica.loaded.get(key.cap, 0),
            max_reservations=self.truth.scenario.max_reservations,
            devices=self._create_device_terms(key, ledger, covered),
            surge=self.surge.create_terms(key, self.policy),
            is_cap_new=self._new_caps.get(key.cap) if self.truth.scenario.are_caps_new else False,
        )

    def _list_limits(self, key: Key) -> Amounts:
        """Return the limits of the policy as they were at the begin of the attempt, by the view of the replica."""
        annotation = self.rules.find_annotation(self.annotations, *key, self.limits_at)
        return self.policy.list_limits(key, self.limits_at, annotation)

    def _find_pod_name(self) -> str:
        """Return the name of the pod of a scheduler's claim; a pod that exists at the start has its UID as its name."""
        assert self.request.claim is not None
        uid = self.request.claim.made_for
        return self.truth.names_by_uid[uid][2] if uid in self.truth.names_by_uid else uid

    def _create_device_terms(self, key: Key, ledger: Ledger, covered: Amounts) -> DeviceTerms:
        request = self.request
        return DeviceTerms(
            kind=ConsumerKind.POD if request.claim is None else ConsumerKind.CLAIM,
            min_claims_revision=self.replica.loaded.get(key.cap, 0) if self.truth.scenario.has_claims else 0,
            sources=list_sources(self._select_mappings(ledger)),
            allocates_at=request.old_revision if self._allocates(key, ledger) else 0,
            pod_uid=request.claim.made_for if request.is_own and request.claim is not None else "",
            covered=covered,
            pod_name=self._find_pod_name() if request.is_own else "",
        )
