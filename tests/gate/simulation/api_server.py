"""The API server: it calls the webhook, again where that takes long, and stores what was allowed in time."""

from collections.abc import Mapping

from tests.gate.simulation.ground import Act, Ground
from tests.gate.simulation.replica import BOUND, Replica
from tests.gate.simulation.requests import Request, State
from tests.gate.simulation.tasks import Task
from tests.gate.simulation.truth import Pod
from tests.state.simulation.picking import pick
from webhook.gate.charging import ChargedPod
from webhook.state.ledger.ledger import Operation
from webhook.state.ports import LedgerKey, RetryLaterError, StoreUnavailableError

_MOST_TASKS = 9


class ApiServer:
    """Of the calls for one request it heeds the last one only."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._truth = ground.truth
        self._requests = ground.requests
        self.acts: Mapping[str, Act] = {
            "call": self._call,
            "store": self._store,
        }

    def _call(self, a: int, b: int) -> str:
        """Call a replica: for the first time, or again while the call before may still be at work."""
        request = pick([each for each in self._requests if each.state is State.CALLING], a)
        replica = self._ground.awake(b)
        if request is None or replica is None or len(self._ground.under_way) >= _MOST_TASKS:
            return ""
        if self._truth.now - request.arrived >= BOUND:
            self._requests.remove(request)
            return f"{request.uid} has run out of time"
        if (request.task is not None and b % 5) or not replica.knows(request.namespace):
            return ""
        task = request.task = self._ground.task(replica, lambda: self._attempt(task, request, replica))
        return f"replica {replica.number} is called for {request.uid}"

    def _attempt(self, task: Task, request: Request, replica: Replica) -> None:
        who = ChargedPod(request.uid, request.namespace, f"pod-{request.uid}", replica.nonce(), request.kind)
        promised: frozenset[LedgerKey] = frozenset()
        loaded, seen = replica.loaded, replica.seen()
        try:
            granted, keys = replica.charge(who, request.old, request.new)
            promised = frozenset(keys)
        except (RetryLaterError, StoreUnavailableError):
            granted = False
        if request.task is not task or request.state is not State.CALLING or request not in self._requests:
            return  # nobody waits for it
        if granted:
            request.state, request.promised, request.judged = State.ALLOWED, promised, seen.namespaces
            for key in promised:
                self._ground.looking.at(key)
                self._ground.looking.granted(key, who, loaded.get(key.cap, 0), seen)
        else:
            self._requests.remove(request)

    def _store(self, a: int, _b: int) -> str:
        """Hand an allowed request to etcd, in time."""
        request = pick([each for each in self._requests if each.state is State.ALLOWED], a)
        if request is None:
            return ""
        if self._truth.now - request.arrived >= BOUND:
            self._requests.remove(request)
            return f"{request.uid} has run out of time"
        request.state = State.SENT
        self._truth.commit(lambda: self._stored(request))
        return f"{request.kind} {request.uid} is sent to etcd"

    def _stored(self, request: Request) -> None:
        pod = self._truth.pods.get(request.uid)
        if request.kind is Operation.CREATE and request.namespace not in self._truth.namespaces:
            self._requests.remove(request)
            return
        if request.kind is Operation.CREATE:
            new = Pod(request.uid, request.namespace, request.new)
        elif pod is not None and pod.revision == request.seen:
            new = pod._replace(size=request.new)
        elif pod is not None and not pod.ended:  # it has changed meanwhile: admission runs again
            request.seen, request.old, request.state, request.task = pod.revision, pod.size, State.CALLING, None
            return
        else:
            self._requests.remove(request)
            return
        self._requests.remove(request)
        self._truth.put(new)
        self._ground.looking.stored(new.uid, request.promised, request.judged)
