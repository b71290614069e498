"""The objects that every step uses: the ground truth, the requests in progress, the replicas and their tasks."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from tallygate.webhook.state.ledger.ledger import Ledger, Operation
from tallygate.webhook.state.ports import LedgerKey
from tests.gate.simulation.ground_truth import ALL_CAPS, GroundTruth, hash_members
from tests.gate.simulation.invariants import Invariants
from tests.gate.simulation.replica import BOUND, Replica
from tests.gate.simulation.store import Store
from tests.gate.simulation.tasks import Task, Tasks

OLD_NAMESPACES = ("team-a", "team-b")
"""The namespaces that exist from start to end."""
_REPLICAS = 2

StepFunction = Callable[[int, int], str]
"""Take one step, which chooses by its numbers; return a line of the story, or none if nothing could be done."""


class RequestState(StrEnum):
    """The progress of a request in the API server."""

    CALLING = "calling"
    ALLOWED = "allowed"
    SENT = "sent"


@dataclass(eq=False)
class Request:
    """A creation or an update in the API server; `old_revision` is that of the pod which it replaces.

    `reserved` are the ledgers that admitted it, by the namespaces as of revision `namespaces_revision`.
    """

    operation: Operation
    uid: str
    namespace: str
    old_size: int
    size: int
    arrived_at: float
    token: int
    old_revision: int = 0
    state: RequestState = RequestState.CALLING
    task: Task | None = None
    reserved: frozenset[LedgerKey] = frozenset()
    namespaces_revision: int = 0


class Environment:
    """The state of the simulation; `caps` are those of the last policy, `token` that of the current step."""

    def __init__(self) -> None:
        self.truth = GroundTruth()
        self.tasks = Tasks()
        self.requests: list[Request] = []
        self.running: list[Task] = []
        self.token = 0
        for name in OLD_NAMESPACES:
            self.truth.create_namespace(name)
        self.invariants = Invariants(self.truth, self._compute_claims, ALL_CAPS)
        self.caps = ALL_CAPS
        self._store = Store(self.truth, self.tasks, self.invariants.check_ledger)
        self._create_ledgers()
        self.replicas = [self.create_replica(number) for number in range(_REPLICAS)]

    def create_replica(self, number: int) -> Replica:
        """Return a replica that has just started."""
        return Replica(number, self.truth, self.tasks, self._store, self.caps)

    def find_running(self, number: int) -> Replica | None:
        """Return a replica by its number, or None if it is frozen."""
        replica = self.replicas[number % len(self.replicas)]
        return None if replica.is_frozen else replica

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

    def _compute_claims(self, key: LedgerKey) -> dict[str, int]:
        """Return the claim of each pod under a ledger: its size, or the larger one of an admitted attempt."""
        claims = {pod.uid: pod.used for pod in self.truth.list_pods(key)}
        for request in self.requests:
            if key in request.reserved and self._may_be_stored(key, request):
                claims[request.uid] = max(claims.get(request.uid, 0), request.size)
        return claims

    def _may_be_stored(self, key: LedgerKey, request: Request) -> bool:
        """Return whether the API server may yet store a request under the cap of a ledger."""
        if request.state is RequestState.ALLOWED and self.truth.now - request.arrived_at >= BOUND:
            return False
        if self.truth.has_left(key, request.namespace):
            return False
        pod = self.truth.pods.get(request.uid)
        revision = pod.revision if pod else 0
        return request.state is not RequestState.CALLING and revision == request.old_revision

    def _create_ledgers(self) -> None:
        """Store the ledgers of the old namespaces, which have no pods yet."""
        for cap in ALL_CAPS.list_caps():
            for name in ("",) if cap.definition.shared else OLD_NAMESPACES:
                revision = self.truth.revision
                ledger = Ledger(
                    cap.hard,
                    resources=cap.resources,
                    pods_revision=revision,
                    namespaces_revision=revision,
                    namespaces_hash=hash_members(OLD_NAMESPACES if cap.definition.shared else (name,)),
                )
                self.truth.ledgers[LedgerKey(cap.key, name)] = ledger, revision
