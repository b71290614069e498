"""The objects that every step uses: the ground truth, the requests in progress, the replicas and their tasks."""

from collections.abc import Callable

from tallygate.state.ledger.ledger import Ledger, Surge
from tallygate.state.ports import LedgerKey
from tests.gate.simulation.attempts import Attempts
from tests.gate.simulation.cluster_objects import POOLS, Slice
from tests.gate.simulation.counts import CountRecorder
from tests.gate.simulation.device_policies import PODS_ONLY, Policies, list_ledger_caps
from tests.gate.simulation.entitlements import Sizes, compute_requested, compute_right
from tests.gate.simulation.gang_rooms import GangRooms
from tests.gate.simulation.gate_replica import GateReplica
from tests.gate.simulation.ground_truth import GroundTruth, hash_members
from tests.gate.simulation.group_bounds import GroupBounds
from tests.gate.simulation.guarantee_bounds import GuaranteeBounds
from tests.gate.simulation.invariants import Invariants
from tests.gate.simulation.percent_bounds import PercentBounds
from tests.gate.simulation.percent_replica import PercentReplica
from tests.gate.simulation.registrations import RegisteredReplica, Registration
from tests.gate.simulation.replica import BOUND, Replica
from tests.gate.simulation.requests import Request, RequestState
from tests.gate.simulation.store import Store
from tests.gate.simulation.surge_bounds import SurgeBounds
from tests.gate.simulation.tasks import Task, Tasks
from tests.state.informers.pods import GPU

OLD_NAMESPACES = ("team-a", "team-b")
"""The namespaces that exist from start to end."""
_REPLICAS = 2
_MAX_REQUESTS = 6

StepFunction = Callable[[int, int], str]
"""Take one step, which chooses by its numbers; return a line of the story, or none if nothing could be done."""


class Environment:
    """The state of the simulation; `policy` is the last version of the policies, `token` that of the current step."""

    def __init__(self, policies: Policies = PODS_ONLY) -> None:
        self.policies = policies
        self.truth = GroundTruth()
        self.tasks = Tasks()
        self.requests: list[Request] = []
        self.running: list[Task] = []
        self.token = 0
        for name in OLD_NAMESPACES:
            self.truth.create_namespace(name)
        if policies.has_claims:
            for pool, devices in POOLS.items():
                self.truth.put_slice(Slice(pool, 1, devices))
        self.recorder = CountRecorder(self.tasks)
        self.rooms = GangRooms(self.truth, self._may_pods_come)
        self._attempts = Attempts(self.tasks)
        self.registration = Registration()
        bounds = SurgeBounds(self.truth, self._attempts)
        bounds_of_shares, guarantees = PercentBounds(self.truth), GuaranteeBounds(self.truth)
        groups = GroupBounds(self.truth, self._attempts)
        checks = [each.list_violations for each in (bounds, self.rooms, bounds_of_shares, guarantees, groups)]
        self.invariants = Invariants(self.truth, self._compute_rights, policies, self.recorder, checks)
        self.invariants.binding = self.registration.binding
        self.policy = policies.other if policies.are_new else policies.first
        if not policies.are_new:
            self.truth.recorded |= {cap.key for cap in policies.first.caps.list_caps()}
        self._store = Store(self.truth, self.tasks, self.invariants.check_ledger)
        if not policies.are_new:
            self._create_ledgers()
        self.replicas = [self.create_replica(number) for number in range(_REPLICAS)]
        self.policy = policies.first

    def create_replica(self, number: int) -> Replica:
        """Return a replica that has just started."""
        parts = number, self.truth, self.recorder, self._store, self.policy
        if self.policies.are_registered:
            return RegisteredReplica(*parts, self.registration)
        if self.policies.follow_capacity:
            return PercentReplica(*parts, self._attempts)
        return GateReplica(*parts, self._attempts) if self.policies.has_reviews else Replica(*parts)

    def find_running(self, number: int) -> Replica | None:
        """Return a replica by its number, or None if it is frozen."""
        replica = self.replicas[number % len(self.replicas)]
        return None if replica.is_frozen else replica

    def send(self, request: Request) -> bool:
        """Send a request to the API server; return False if too many are in progress."""
        if len(self.requests) >= _MAX_REQUESTS:
            return False
        self.requests.append(request)
        return True

    def start_task(self, replica: Replica, work: Callable[[], None]) -> Task:
        """Start work in a replica."""
        task = Task(self.tasks, replica.number, work)
        task.token = self.token
        self.running.append(task)
        return task

    def end(self) -> None:
        """End every thread."""
        for task in self.running:
            task.kill()
        self.running.clear()

    def _compute_rights(self, key: LedgerKey) -> dict[str, Sizes]:
        """Return the entitlement of each pod and claim under a ledger, or the larger one of an admitted attempt."""
        rights: dict[str, Sizes] = {pod.uid: {GPU: pod.used} for pod in self.truth.list_pods(key)}
        rights |= {claim.uid: compute_right(self.truth, claim) for claim in self.truth.list_claims(key)}
        for request in self.requests:
            if key in request.reserved and request.workload is None and self._may_be_stored(key, request):
                right = rights.setdefault(request.uid, {})
                requested = compute_requested(self.truth, request.claim) if request.claim else {GPU: request.size}
                right.update({name: max(size, right.get(name, 0)) for name, size in requested.items()})
        return rights

    def _may_pods_come(self, uid: str) -> bool:
        """Return whether a workload is stored and gets pods, or may yet be stored."""
        workload, group = self.truth.workloads.get(uid), self.truth.groups.get(uid)
        if group is not None:
            return not group.has_stopped
        if workload is not None:
            return workload.may_start_pods
        requests = [each for each in self.requests if each.uid == uid and each.state is not RequestState.CALLING]
        return any(each.state is RequestState.SENT or self.truth.now - each.arrived_at < BOUND for each in requests)

    def _may_be_stored(self, key: LedgerKey, request: Request) -> bool:
        """Return whether the API server may yet store a request under the cap of a ledger."""
        if request.state is RequestState.ALLOWED and self.truth.now - request.arrived_at >= BOUND:
            return False
        if self.truth.has_left(key, request.namespace):
            return False
        stored = self.truth.pods.get(request.uid) or self.truth.claims.get(request.uid)
        revision = stored.revision if stored else 0
        return request.state is not RequestState.CALLING and revision == request.old_revision

    def _create_ledgers(self) -> None:
        """Store the ledgers of the old namespaces, which have no pods yet."""
        for cap in list_ledger_caps(self.policies.first.caps):
            for name in ("",) if cap.definition.shared else OLD_NAMESPACES:
                revision, key = self.truth.revision, LedgerKey(cap.key, name)
                ledger = Ledger(
                    cap.hard,
                    resources=cap.counted,
                    surge=Surge(cap.surge),
                    pods_revision=revision,
                    claims_revision=revision if cap.counts_claims else 0,
                    namespaces_revision=revision,
                    namespaces_hash=hash_members(self.truth.list_members(key)),
                    mappings=cap.mappings,
                )
                self.truth.ledgers[key] = ledger, revision
                self.invariants.check_ledger(key)
