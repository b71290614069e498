"""What every step finds and changes: the truth, requests on their way, replicas, and what runs in them."""

from collections.abc import Callable

from tests.gate.simulation.caps import WITH
from tests.gate.simulation.looking import Looking
from tests.gate.simulation.replica import BOUND, Replica
from tests.gate.simulation.requests import Request, State
from tests.gate.simulation.store import Store
from tests.gate.simulation.tasks import Task, Tasks
from tests.gate.simulation.truth import Truth, membership
from webhook.state.ledger.ledger import Ledger
from webhook.state.ports import LedgerKey

OLD_NAMESPACES = ("team-a", "team-b")
"""Those that are there from the beginning, and stay."""
_REPLICAS = 2

Act = Callable[[int, int], str]
"""A step: takes the numbers by which it chooses, says what happened, or nothing when nothing could."""


class Ground:
    """`looking` says what must hold, `caps` are those of the policies, `token` is given to what a step begins."""

    def __init__(self) -> None:
        self.truth = Truth()
        self.tasks = Tasks()
        self.requests: list[Request] = []
        self.under_way: list[Task] = []
        self.token = 0
        for name in OLD_NAMESPACES:
            self.truth.bear(name)
        self.looking = Looking(self.truth, self.claims, WITH)
        self.caps = WITH
        self._store = Store(self.truth, self.tasks, self.looking.at)
        self._populate()
        self.replicas = [self.replica(number) for number in range(_REPLICAS)]

    def claims(self, key: LedgerKey) -> dict[str, int]:
        """What each pod holds under a ledger, or may come to hold by an attempt that was granted."""
        claims = {pod.uid: pod.holds for pod in self.truth.pods_under(key)}
        for request in self.requests:
            if key in request.promised and self._may_be_stored(key, request):
                claims[request.uid] = max(claims.get(request.uid, 0), request.new)
        return claims

    def replica(self, number: int) -> Replica:
        """One that begins just now."""
        return Replica(number, self.truth, self.tasks, self._store, self.caps)

    def awake(self, number: int) -> Replica | None:
        """One of the replicas, unless it is frozen."""
        replica = self.replicas[number % len(self.replicas)]
        return None if replica.frozen else replica

    def task(self, replica: Replica, work: Callable[[], None]) -> Task:
        """Begin work in a replica."""
        task = Task(self.tasks, replica.number, work)
        task.token = self.token
        self.under_way.append(task)
        return task

    def _may_be_stored(self, key: LedgerKey, request: Request) -> bool:
        """Return whether a request may yet be stored under the cap of a ledger."""
        if request.state is State.ALLOWED and self.truth.now - request.arrived >= BOUND:
            return False
        if self.truth.has_left(key, request.namespace):
            return False
        pod = self.truth.pods.get(request.uid)
        seen = pod.revision if pod else 0
        return request.state is not State.CALLING and seen == request.seen

    def _populate(self) -> None:
        """Ledgers of the namespaces that are there, with nothing in them, as a keeper leaves them."""
        for counted in WITH.list_caps():
            for name in ("",) if counted.definition.shared else OLD_NAMESPACES:
                members = membership(OLD_NAMESPACES if counted.definition.shared else (name,))
                at = self.truth.revision
                ledger = Ledger(
                    counted.hard,
                    resources=counted.resources,
                    pods_revision=at,
                    namespaces_revision=at,
                    namespaces_hash=members,
                )
                self.truth.books[LedgerKey(counted.key, name)] = ledger, at
