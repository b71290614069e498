"""The attempts of requests that a gate decides, with all that limits them by plain arithmetic (rules 8 and 12)."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from tallygate.accounting.quantity import Quantity
from tallygate.admission.cap_index import ActiveCap
from tallygate.policy.model import NamespaceCap
from tallygate.state.ledger.ledger import Operation
from tests.gate.simulation.cluster_objects import Limit, Pod
from tests.gate.simulation.device_policies import Policies, PolicyVersion
from tests.gate.simulation.ground_truth import GroundTruth
from tests.gate.simulation.percent_policies import MAX_NODES, MAX_SIZE, compute_share
from tests.gate.simulation.replica import SeenRevisions
from tests.gate.simulation.requests import Request
from tests.gate.simulation.tasks import Task, Tasks
from tests.state.informers.pods import GPU


class Attempt(NamedTuple):
    """An attempt of a request by a replica: its policy, time and views at the begin, and its view of now.

    `started_at` is the time of the world, `unix_time` that of the replica. `capacity` is the most that the settled one
    of its replica may be.
    """

    request: Request
    policy: PolicyVersion
    started_at: float
    unix_time: float
    seen: SeenRevisions
    see_now: Callable[[], SeenRevisions]
    capacity: int = 0

    @property
    def adds(self) -> bool:
        """Whether it requests more than is stored, so that the limits decide."""
        return self.request.size > self.request.old_size

    def find_cap(self, key: str) -> ActiveCap | None:
        """Return the cap with a key in its policy, or None."""
        return self.policy.caps.find_cap(key)

    def compute_hard(self, truth: GroundTruth, cap: ActiveCap) -> int:
        """Return the hard limit of its replica at its begin."""
        limit = truth.find_limit(self.request.namespace, self.seen.namespaces)
        return compute_hard(cap, limit, self.unix_time, self.capacity)

    def may_surge(self, truth: GroundTruth) -> bool:
        """Return whether it creates a pod of a controller that rolled in the view of its replica, at any time since."""
        request = self.request
        if request.operation is not Operation.CREATE or request.workload is not None:
            return False
        pod = Pod(request.uid, request.namespace, request.size, owner=request.owner)
        revisions = range(self.seen.pods, self.see_now().pods + 1)
        return any(truth.rollouts.may_roll(pod, truth.list_pods_at(each)) for each in revisions)


def compute_hard(cap: ActiveCap, limit: Limit | None, unix_time: float, capacity: int = 0) -> int:
    """Return the hard limit under a cap at a time, in a namespace with the limit of this annotation.

    `capacity` is that of the nodes, if the limit is a percentage of it.
    """
    definition = cap.definition
    if definition.annotation is not None and limit is not None and (limit.until is None or unix_time < limit.until):
        return limit.amount
    for override in definition.overrides:
        if override.until is None or unix_time < override.until.timestamp():
            return override.hard[GPU].value()
    return _read_amount(definition, capacity)


def _read_amount(definition: NamespaceCap, capacity: int) -> int:
    limit = definition.hard[GPU]
    return limit.value() if isinstance(limit, Quantity) else compute_share(definition.name, capacity)


def compute_most(key: str, policies: Policies) -> int:
    """Return the most GPUs that may ever be used under a cap: by its largest limit and its largest surge."""
    caps = [cap for each in (policies.first, policies.other) if (cap := each.caps.find_cap(key)) is not None]
    limits = [limit for cap in caps for limit in _list_limits(cap)]
    return max(limits) + max(cap.surge.get(GPU, 0) for cap in caps)


def _list_limits(cap: ActiveCap) -> Iterator[int]:
    definition = cap.definition
    yield _read_amount(definition, MAX_NODES * MAX_SIZE)
    yield from (each.hard[GPU].value() for each in definition.overrides)
    if definition.annotation is not None:
        yield definition.annotation.most[GPU].value()


class Attempts:
    """All attempts by their nonces. A task makes one attempt of a request at a time."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._open: dict[Task | None, Attempt] = {}
        self._by_nonce: dict[str, Attempt] = {}

    @contextmanager
    def open(self, attempt: Attempt) -> Iterator[None]:
        """Record the nonces of the task that runs now as those of an attempt."""
        task = self._tasks.running
        self._open[task] = attempt
        try:
            yield
        finally:
            del self._open[task]

    def record_nonce(self, nonce: str) -> None:
        """Record a nonce if a request is being decided."""
        attempt = self._open.get(self._tasks.running)
        if attempt is not None:
            self._by_nonce[nonce] = attempt

    def find_last_nonce(self, attempt: Attempt) -> str:
        """Return the last nonce of an attempt, or an empty text."""
        return next((nonce for nonce, each in reversed(self._by_nonce.items()) if each is attempt), "")

    def find(self, nonce: str) -> Attempt | None:
        """Return the attempt with a nonce, or None if it is not of a request."""
        return self._by_nonce.get(nonce)
