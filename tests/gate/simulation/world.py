"""The world: every step that a schedule can take. What a step chooses, it chooses by its numbers."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from tests.admission.case import policies
from tests.gate.simulation.looking import Looking
from tests.gate.simulation.replica import BOUND, Replica
from tests.gate.simulation.store import Store
from tests.gate.simulation.tasks import Task, Tasks
from tests.gate.simulation.truth import Pod, Truth, membership, under
from tests.state.simulation.picking import pick
from tests.state.simulation.violation import ViolationError
from webhook.admission.capping import CapIndex
from webhook.gate.promising import Who
from webhook.state.ledger import Kind, Ledger
from webhook.state.ports import BusyError, LedgerKey, StoreUnavailableError

EACH, TOGETHER = 4, 9
_CAPS = """
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {{name: {name}}}
spec:
  namespaces: {{include: ["team-*"]}}
  shared: {shared}
  hard: {{nvidia.com/gpu: {hard}}}
"""
_ONE = _CAPS.format(name="each", shared="false", hard=EACH)
_OTHER = _CAPS.format(name="together", shared="true", hard=TOGETHER)
WITH, WITHOUT = CapIndex(policies(f"{_ONE}---{_OTHER}")), CapIndex(policies(_ONE))
"""Both caps, and the one of each namespace alone."""
_MOST_REQUESTS, _MOST_TASKS, _REPLICAS = 6, 9, 2
_OLD_NAMESPACES = ("team-a", "team-b")
_NEW_NAMESPACES = ("team-2", "team-3")


class State(StrEnum):
    """Where the API server is with a request."""

    CALLING = "calling"
    ALLOWED = "allowed"
    SENT = "sent"


@dataclass(eq=False)
class Request:
    """A creation or a change; `seen` is the revision of the pod that it would replace."""

    kind: Kind
    uid: str
    namespace: str
    old: int
    new: int
    arrived: float
    token: int
    seen: int = 0
    state: State = State.CALLING
    task: Task | None = None
    promised: frozenset[LedgerKey] = frozenset()


class World:
    """Everything there is. `told` says what happened, `looking` what must hold."""

    def __init__(self) -> None:
        self.truth = Truth()
        self.tasks = Tasks()
        self.requests: list[Request] = []
        self.under_way: list[Task] = []
        self._token = self._uids = 0
        for name in _OLD_NAMESPACES:
            self.truth.bear(name)
        self.looking = Looking(self.truth, self.claims, WITH)
        self.caps = WITH
        self.store = Store(self.truth, self.tasks, self.looking.at)
        self._populate()
        self.replicas = [self._replica(number) for number in range(_REPLICAS)]
        self._acts: dict[str, Callable[[int, int], str]] = {
            "create": self._create, "change": self._change, "delete": self._delete, "end": self._end,
            "call": self._call, "go": self._go, "store": self._store, "visit": self._visit, "tick": self._tick,
            "watch": self._watch, "names": self._names, "ask": self._ask, "bookmark": self._bookmark,
            "relist": self._relist, "stall": self._stall, "commit": self._commit, "arrive": self._arrive,
            "crash": self._crash, "freeze": self._freeze, "thaw": self._thaw, "lose": self._lose, "bear": self._bear,
            "bury": self._bury,
            "publish": self._publish, "load": self._load, "lead": self._lead,
            "clear": self._clear,
        }  # fmt: skip

    def step(self, op: str, a: int, b: int, token: int) -> str:
        """Take a step; says what happened, or nothing when nothing could.

        Raises:
            ViolationError: something does not hold any more.
        """
        self._token = token
        did = self._acts[op](a, b)
        if self.looking.violation:
            raise ViolationError(self.looking.violation)
        return did

    def end(self) -> None:
        """Leave no thread behind."""
        for task in self.under_way:
            task.kill()
        self.under_way.clear()

    def claims(self, key: LedgerKey) -> dict[str, int]:
        """What each pod holds under a ledger, or may come to hold by an attempt that was granted."""
        claims = {uid: pod.holds for uid, pod in self.truth.pods.items() if under(key, pod)}
        for request in self.requests:
            if key in request.promised and self._may_be_stored(request):
                claims[request.uid] = max(claims.get(request.uid, 0), request.new)
        return claims

    def _may_be_stored(self, request: Request) -> bool:
        if request.state is State.ALLOWED and self.truth.now - request.arrived >= BOUND:
            return False
        pod = self.truth.pods.get(request.uid)
        seen = pod.revision if pod else 0
        return request.state is not State.CALLING and seen == request.seen

    def _populate(self) -> None:
        """Ledgers of the namespaces that are there, with nothing in them, as a keeper leaves them."""
        for counted in WITH.all():
            for name in ("",) if counted.cap.shared else _OLD_NAMESPACES:
                members = membership(_OLD_NAMESPACES if counted.cap.shared else (name,))
                at = self.truth.revision
                ledger = Ledger(counted.hard, counts=counted.names, as_of=at, ns_as_of=at, members=members)
                self.truth.books[LedgerKey(counted.key, name)] = ledger, at

    def _replica(self, number: int) -> Replica:
        return Replica(number, self.truth, self.tasks, self.store, self.caps)

    def _awake(self, number: int) -> Replica | None:
        replica = self.replicas[number % len(self.replicas)]
        return None if replica.frozen else replica

    # Users, and what becomes of pods

    def _create(self, a: int, b: int) -> str:
        self._uids += 1
        namespace = list(self.truth.namespaces)[a % len(self.truth.namespaces)]
        return self._asked(Request(Kind.CREATE, f"u{self._uids}", namespace, 0, 1 + b % 3, self.truth.now, self._token))

    def _change(self, a: int, b: int) -> str:
        pods = [pod for pod in self.truth.pods.values() if not pod.ended]
        if not pods:
            return ""
        pod = pods[a % len(pods)]
        return self._asked(
            Request(Kind.CHANGE, pod.uid, pod.namespace, pod.size, 1 + b % 4, self.truth.now, self._token, pod.revision)
        )

    def _asked(self, request: Request) -> str:
        if len(self.requests) >= _MOST_REQUESTS:
            return ""
        self.requests.append(request)
        return f"{request.kind} {request.uid} in {request.namespace}: {request.old} → {request.new}"

    def _delete(self, a: int, _b: int) -> str:
        if self.truth.stalled or not self.truth.pods:
            return ""
        uid = sorted(self.truth.pods)[a % len(self.truth.pods)]
        self.truth.remove(uid)
        return f"{uid} is deleted (revision {self.truth.revision})"

    def _end(self, a: int, _b: int) -> str:
        if self.truth.stalled or not self.truth.pods:
            return ""
        uid = sorted(self.truth.pods)[a % len(self.truth.pods)]
        self.truth.put(self.truth.pods[uid]._replace(ended=True))
        return f"{uid} ends (revision {self.truth.revision})"

    def _bear(self, a: int, _b: int) -> str:
        names = [each for each in _NEW_NAMESPACES if each not in self.truth.namespaces]
        if not names:
            return ""
        name = names[a % len(names)]
        self.truth.bear(name)
        return f"{name} is made (revision {self.truth.revision})"

    def _bury(self, a: int, _b: int) -> str:
        """A namespace goes. One of its name may come again, while some have not even seen that it went."""
        names = [each for each in _NEW_NAMESPACES if each in self.truth.namespaces]
        if not names or self.truth.stalled or self.truth.waiting:
            return ""
        name = names[a % len(names)]
        self.truth.bury(name)
        return f"{name} is deleted (revision {self.truth.revision})"

    # The API server

    def _call(self, a: int, b: int) -> str:
        """Call a replica: for the first time, or again while the call before may still be at work."""
        request, replica = pick([each for each in self.requests if each.state is State.CALLING], a), self._awake(b)
        if request is None or replica is None or len(self.under_way) >= _MOST_TASKS:
            return ""
        if self.truth.now - request.arrived >= BOUND:
            self.requests.remove(request)
            return f"{request.uid} has run out of time"
        if (request.task is not None and b % 5) or not replica.knows(request.namespace):
            return ""
        task = request.task = self._task(replica, lambda: self._attempt(task, request, replica))
        return f"replica {replica.number} is called for {request.uid}"

    def _attempt(self, task: Task, request: Request, replica: Replica) -> None:
        who = Who(request.uid, request.namespace, f"pod-{request.uid}", replica.nonce(), request.kind)
        promised: frozenset[LedgerKey] = frozenset()
        loaded = replica.loaded
        try:
            granted, keys = replica.charge(who, request.old, request.new)
            promised = frozenset(keys)
        except (BusyError, StoreUnavailableError):
            granted = False
        if request.task is not task or request.state is not State.CALLING or request not in self.requests:
            return  # nobody waits for it
        if granted:
            request.state, request.promised = State.ALLOWED, promised
            for key in promised:
                self.looking.at(key)
                self.looking.granted(key, who, loaded.get(key.cap, 0))
        else:
            self.requests.remove(request)

    def _task(self, replica: Replica, work: Callable[[], None]) -> Task:
        task = Task(self.tasks, replica.number, work)
        task.token = self._token
        self.under_way.append(task)
        return task

    def _go(self, a: int, b: int) -> str:
        task = pick([each for each in self.under_way if not self.replicas[each.replica].frozen], a)
        if task is None:
            return ""
        for order in range(1 + b % 3):
            if not task.is_over:
                task.go(b >> order)
        if not task.is_over:
            return f"replica {task.replica} {task.where}"
        self.under_way.remove(task)
        if task.failure is not None:
            raise task.failure
        return f"replica {task.replica} is done"

    def _store(self, a: int, _b: int) -> str:
        """Hand an allowed request to etcd, in time."""
        request = pick([each for each in self.requests if each.state is State.ALLOWED], a)
        if request is None:
            return ""
        if self.truth.now - request.arrived >= BOUND:
            self.requests.remove(request)
            return f"{request.uid} has run out of time"
        request.state = State.SENT
        self.truth.commit(lambda: self._stored(request))
        return f"{request.kind} {request.uid} is sent to etcd"

    def _stored(self, request: Request) -> None:
        pod = self.truth.pods.get(request.uid)
        if request.kind is Kind.CREATE and request.namespace not in self.truth.namespaces:
            self.requests.remove(request)
            return
        if request.kind is Kind.CREATE:
            new = Pod(request.uid, request.namespace, request.new)
        elif pod is not None and pod.revision == request.seen:
            new = pod._replace(size=request.new)
        elif pod is not None and not pod.ended:  # it has changed meanwhile: admission runs again
            request.seen, request.old, request.state, request.task = pod.revision, pod.size, State.CALLING, None
            return
        else:
            self.requests.remove(request)
            return
        self.requests.remove(request)
        self.truth.put(new)
        self.looking.stored(new.uid, request.promised)

    # Etcd

    def _stall(self, _a: int, _b: int) -> str:
        if self.truth.stalled:
            return ""
        self.truth.stalled = True
        return "etcd stalls"

    def _commit(self, a: int, _b: int) -> str:
        if self.truth.stalled:
            self.truth.stalled = a % 4 != 0
            return "" if self.truth.stalled else "etcd goes on"
        if not self.truth.waiting:
            return ""
        self.truth.waiting.pop(0)()
        return f"etcd commits what came first (revision {self.truth.revision})"

    def _arrive(self, a: int, _b: int) -> str:
        """A write that was late comes to etcd after all."""
        if not self.truth.late:
            return ""
        self.truth.commit(self.truth.late.pop(a % len(self.truth.late)))
        return "a late write arrives"

    def _lose(self, a: int, _b: int) -> str:
        """Somebody deletes a ledger, past its finalizer: not in the first moments of its namespace (docs/caps.md)."""
        keys = [key for key in self.truth.books if key.namespace in {"", *_OLD_NAMESPACES}]
        if not keys or self.truth.waiting or self.truth.stalled:
            return ""
        key = keys[a % len(keys)]
        del self.truth.books[key]
        return f"the ledger {key} is lost"

    def _clear(self, a: int, _b: int) -> str:
        """A ledger that counts and promises nothing is taken away, whatever its namespace: that may be done always."""
        empty = [key for key, (ledger, _) in self.truth.books.items() if not (ledger.rows or ledger.tally)]
        empty = [key for key in empty if not self.truth.books[key][0].converging]
        if not empty or self.truth.waiting or self.truth.stalled:
            return ""
        key = empty[a % len(empty)]
        del self.truth.books[key]
        return f"the ledger {key}, which is empty, is taken away"

    # Replicas

    def _visit(self, a: int, b: int) -> str:
        replica = self._awake(a)
        keys = replica.keys() if replica else []
        if (
            replica is None
            or not keys
            or any(each.token < 0 and each.replica == replica.number for each in self.under_way)
        ):
            return ""
        key, counted = keys[b % len(keys)]

        def visit() -> None:
            try:
                replica.keeper.visit(key, counted)
            except (BusyError, StoreUnavailableError):
                return

        self._task(replica, visit).token = ~self._token  # below zero: a keeper is one thread
        return f"replica {replica.number} visits {key.namespace or 'the shared ledger'}"

    def _watch(self, a: int, b: int) -> str:
        replica = self._awake(a)
        if replica is None or not replica.watch(1 + b % 3):
            return ""
        return f"replica {replica.number} sees pods up to {replica.pods.revision}"

    def _names(self, a: int, _b: int) -> str:
        replica = self._awake(a)
        return f"replica {replica.number} sees a namespace" if replica and replica.watch_namespaces() else ""

    def _ask(self, a: int, _b: int) -> str:
        replica = self._awake(a)
        if replica is None:
            return ""
        replica.ask()
        return f"replica {replica.number} asks where the cluster is"

    def _bookmark(self, a: int, _b: int) -> str:
        replica = self._awake(a)
        return f"replica {replica.number} has seen all" if replica and replica.bookmark() else ""

    def _relist(self, a: int, _b: int) -> str:
        replica = self._awake(a)
        if replica is None:
            return ""
        replica.relist()
        return f"replica {replica.number} lists pods anew (revision {self.truth.revision})"

    def _tick(self, _a: int, _b: int) -> str:
        self.truth.now += 1.0
        return f"time {self.truth.now:.0f}"

    def _crash(self, a: int, _b: int) -> str:
        number = a % len(self.replicas)
        for task in [each for each in self.under_way if each.replica == number]:
            task.kill()
            self.under_way.remove(task)
            for request in self.requests:
                request.task = None if request.task is task else request.task
        self.replicas[number] = self._replica(number)
        return f"replica {number} crashes and begins anew"

    def _freeze(self, a: int, _b: int) -> str:
        replica = self._awake(a)
        if replica is None:
            return ""
        replica.frozen = True
        return f"replica {replica.number} freezes"

    def _thaw(self, a: int, _b: int) -> str:
        replica = self.replicas[a % len(self.replicas)]
        if not replica.frozen:
            return ""
        replica.frozen = False
        return f"replica {replica.number} goes on"

    def _lead(self, a: int, _b: int) -> str:
        """A lease comes, or lapses."""
        replica = self.replicas[a % len(self.replicas)]
        replica.is_leader = not replica.is_leader
        return f"replica {replica.number} {'takes itself for the leader' if replica.is_leader else 'leads no more'}"

    def _publish(self, _a: int, _b: int) -> str:
        """The shared cap is taken out of the policies, or put back."""
        self.caps = WITHOUT if self.caps is WITH else WITH
        return f"a policy is published {'without' if self.caps is WITHOUT else 'with'} the shared cap"

    def _load(self, a: int, _b: int) -> str:
        replica = self._awake(a)
        if replica is None or replica.caps is self.caps:
            return ""
        replica.load(self.caps)
        return f"replica {replica.number} loads it"
