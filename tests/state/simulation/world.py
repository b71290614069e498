"""The world: every step that a schedule can take, and what it does to whom.

A step that has nothing to act on does nothing and says so; everything that a step chooses, it chooses by its numbers.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace

from tests.state.simulation.cluster import Book, Cluster, Key, Pod, Write, amounts, is_under, keys_of, members
from tests.state.simulation.handling import Handler, Phase, Policy, Request, State
from tests.state.simulation.invariants import Invariants
from tests.state.simulation.observing import Replica
from tests.state.simulation.picking import pick
from tests.state.simulation.rules import PRODUCT, Rules
from tests.state.simulation.scenario import B, Scenario, Step, X, Y
from tests.state.simulation.upkeep import Upkeep
from webhook.state.ledger.ledger import Ledger, Operation

_MOST_REQUESTS = 5
_MOST_HANDLERS = 6
_MOST_WRITES = 6
_NAMES = 2

Act = Callable[[int, int, int], str]


class World:
    """Everything there is, from the first step on. `told` collects what happened, when somebody wants to read it."""

    def __init__(self, scenario: Scenario, rules: Rules = PRODUCT) -> None:
        self.scenario = scenario
        self.rules = rules
        self.cluster = Cluster(scenario)
        labels = scenario.labels or (frozenset(range(len(scenario.caps))),) * scenario.namespaces
        self.cluster.label_log.append((1, labels))
        every = frozenset(range(len(scenario.caps)))
        self.policies = [Policy(tuple(cap.hard for cap in scenario.caps), frozenset({X}), every)]
        self.requests: list[Request] = []
        self.by_uid: dict[str, list[Request]] = defaultdict(list)
        self.handlers: list[Handler] = []
        self.writes: list[Write] = []
        self.invariants = Invariants(self.cluster, self.by_uid)
        self.told: list[str] = []
        self._token = 0
        self._uids = 0
        self._nonces = 0
        self._populate()
        self.replicas = [Replica(number, self.cluster, rules) for number in range(scenario.replicas)]
        for replica in self.replicas:
            replica.load(0, every)
        upkeep = Upkeep(self.cluster, rules, self.replicas, self.policies, self.handlers, self._send)
        self._acts = self._all_acts(upkeep)

    def step(self, step: Step) -> str:
        """Take a step; says what happened, or nothing when nothing could."""
        op, a, b, c = step
        self._token = c
        return self._acts[op](a, b, c)

    def _all_acts(self, upkeep: Upkeep) -> dict[str, Act]:
        """What each operation of a schedule does."""
        return {
            "create": self._create,
            "change": self._change,
            "delete": self._delete,
            "end": self._end,
            "touch": self._touch,
            "call": self._call,
            "go": self._go,
            "give_up": self._give_up,
            "store": self._store,
            "land": self._land,
            "lose": self._lose,
            "stall": self._stall,
            "commit": self._commit,
            "forget": self._forget,
            "tick": self._tick,
            "relabel": self._relabel,
            "publish": self._publish,
            "retire": self._retire,
            "watch": upkeep.watch,
            "watch_namespaces": upkeep.watch_namespaces,
            "relist": upkeep.relist,
            "count": upkeep.count,
            "tend": upkeep.tend,
            "lead": upkeep.lead,
            "load": upkeep.load,
            "crash": upkeep.crash,
            "freeze": upkeep.freeze,
            "thaw": upkeep.thaw,
        }

    def _populate(self) -> None:
        for namespace, size in self.scenario.pods:
            uid = self._uid()
            token = self._uids * 9973 & 0xFFFF
            self.cluster.put(Pod(uid, namespace, uid, size, classed=True, ended=False, revision=0, token=token))
        labels = self.cluster.labels
        for number, cap in enumerate(self.scenario.caps):
            for namespace in (-1,) if cap.shared else range(self.scenario.namespaces):
                self._open(Key(number, namespace), labels)

    def _open(self, key: Key, labels: tuple[frozenset[int], ...]) -> None:
        """The ledger of a cap over the pods that are there from the start."""
        names = self.policies[0].names
        counted = {
            uid: amounts(pod.size, names)
            for uid, pod in self.cluster.pods.items()
            if is_under(self.scenario, labels, key, pod)
        }
        ledger = Ledger(
            self.policies[0].bounds(key),
            amounts(sum(each[X] for each in counted.values()), names),
            resources=names,
            pods_revision=self.cluster.revision,
            namespaces_revision=1,
            namespaces_hash=members(self.scenario, labels, key),
        )
        self.cluster.books[key] = Book(ledger, self.cluster.revision, counted)

    def _uid(self) -> str:
        self._uids += 1
        return f"u{self._uids}"

    def _size(self, number: int) -> int:
        least, most = self.scenario.sizes
        return least + number % (most - least + 1)

    # Users, and what becomes of pods

    def _create(self, a: int, b: int, c: int) -> str:
        if len(self.requests) >= _MOST_REQUESTS:
            return ""
        namespace, name = a % self.scenario.namespaces, f"p{b % _NAMES}"
        request = Request(
            self._uid(), Operation.CREATE, namespace, name, self._size(c), (c >> 8) % 3 > 0, self.cluster.now
        )
        return self._arrives(request)

    def _change(self, a: int, b: int, c: int) -> str:
        pod = pick([pod for pod in self.cluster.pods.values() if not pod.ended], a)
        if pod is None or len(self.requests) >= _MOST_REQUESTS:
            return ""
        size = self._size(b)
        classed = pod.classed if c % 3 else not pod.classed
        request = Request(pod.uid, Operation.UPDATE, pod.namespace, pod.name, size, classed, self.cluster.now)
        self._refresh(request, pod)
        return self._arrives(request)

    def _arrives(self, request: Request) -> str:
        request.token = self._token
        self.requests.append(request)
        self.by_uid[request.uid].append(request)
        asked = f"{request.kind} {request.uid} (namespace {request.namespace}) with {request.size}"
        return f"{asked}{'' if request.classed else ', unclassed'} arrives; it has {request.old_size}"

    def _refresh(self, request: Request, pod: Pod) -> None:
        request.seen, request.old_size, request.old_classed = pod.revision, pod.size, pod.classed
        request.state, request.handler = State.CALLING, None

    def _over(self, request: Request) -> None:
        request.state = State.OVER
        self.requests.remove(request)
        of_pod = self.by_uid[request.uid]
        of_pod.remove(request)
        if not of_pod:
            del self.by_uid[request.uid]

    def _delete(self, a: int, _b: int, _c: int) -> str:
        pod = pick(list(self.cluster.pods.values()), a)
        if pod is None or self.cluster.stalled:
            return ""
        self.cluster.remove(pod.uid)
        return f"{pod.uid} is deleted (revision {self.cluster.revision})"

    def _end(self, a: int, _b: int, _c: int) -> str:
        return self._update(a, "ends", ended=True)

    def _touch(self, a: int, _b: int, _c: int) -> str:
        return self._update(a, "has another status", ended=False)

    def _update(self, a: int, what: str, *, ended: bool) -> str:
        pod = pick([pod for pod in self.cluster.pods.values() if not pod.ended], a)
        if pod is None or self.cluster.stalled:
            return ""
        self.cluster.put(pod._replace(ended=ended))
        return f"{pod.uid} {what} (revision {self.cluster.revision})"

    # The API server

    def _call(self, a: int, b: int, _c: int) -> str:
        """Call the webhook: for the first time, or again while the call before may still be at work."""
        request = pick([each for each in self.requests if each.state is State.CALLING], a)
        replica = self.replicas[b % len(self.replicas)]
        if request is None or len(self.handlers) >= _MOST_HANDLERS:
            return ""
        if self.cluster.now - request.arrived >= B:
            self._over(request)
            return f"{request.kind} {request.uid} has run out of time"
        again = request.handler is not None
        if again and a % 5:
            return ""
        self._nonces += 1
        policy = self.policies[replica.policy]
        by = f"n{self._nonces}@{replica.clock():.0f}"
        request.names = policy.names
        request.handler = Handler(by, request, replica, policy, self.cluster, self.rules, self._send)
        request.handler.token = self._token
        self.handlers.append(request.handler)
        return (
            f"replica {replica.number} is called{' again' if again else ''} for {request.uid}: attempt n{self._nonces}"
        )

    def _go(self, a: int, b: int, c: int) -> str:
        """An attempt goes on."""
        handler = pick([each for each in self.handlers if not each.replica.frozen], a)
        if handler is None:
            return ""
        did = handler.step(b)
        if handler.phase is Phase.OVER:
            self.handlers.remove(handler)
            return f"{handler.name} {did}{self._reply(handler, lost=c % 16 == 0)}"
        for key in handler.confirmed:
            self.invariants.pod(key, handler.request.uid)
        return f"{handler.name} {did}" if did else ""

    def _reply(self, handler: Handler, *, lost: bool) -> str:
        request = handler.request
        if request.handler is not handler or request.state is not State.CALLING:
            return "; nobody waits for it"
        if lost:
            request.handler = None
            return "; the answer is lost"
        if not handler.allows:
            self._over(request)
            return "; the request is refused, or sent away"
        request.state = State.ALLOWED
        request.promised, request.judged = frozenset(handler.confirmed), frozenset(handler.keys)
        request.names, request.label_revision = handler.policy.names, handler.label_revision
        return ""

    def _give_up(self, a: int, _b: int, _c: int) -> str:
        handler = pick([each for each in self.handlers if not each.replica.frozen], a)
        did = handler.give_up() if handler else ""
        return f"{handler.name} {did}" if handler and did else ""

    def _store(self, a: int, _b: int, _c: int) -> str:
        """Hand an allowed request to etcd, in time."""
        request = pick([each for each in self.requests if each.state is State.ALLOWED], a)
        if request is None:
            return ""
        if self.cluster.now - request.arrived >= B:
            self._over(request)
            return f"{request.kind} {request.uid} has run out of time"
        request.state = State.SENT
        self.cluster.commit(lambda: self._stored(request))
        return f"{request.kind} {request.uid} is sent to etcd" + (
            "" if self.cluster.waiting else f" and stored (revision {self.cluster.revision})"
        )

    def _stored(self, request: Request) -> None:
        cluster, pod = self.cluster, self.cluster.pods.get(request.uid)
        if request.kind is Operation.CREATE and (request.namespace, request.name) not in cluster.names:
            new = Pod(
                request.uid, request.namespace, request.name, request.size, request.classed, ended=False, revision=0
            )
        elif request.kind is Operation.UPDATE and pod is not None and pod.revision == request.seen:
            new = pod._replace(size=request.size, classed=request.classed)
        elif request.kind is Operation.UPDATE and pod is not None and not pod.ended:
            self._refresh(request, pod)  # the object changed meanwhile: admission runs again
            return
        else:
            self._over(request)
            return
        cluster.put(new if new.token else new._replace(token=request.token))
        self._over(request)
        self.invariants.store(request.uid, request)

    # Writes on their way, and etcd

    def _send(self, write: Write) -> bool:
        if len(self.writes) >= _MOST_WRITES:
            return False
        write.token = self._token
        self.writes.append(write)
        return True

    def _land(self, a: int, b: int, _c: int) -> str:
        """A write reaches etcd, sooner or later than others; its answer may get lost, and it may come twice."""
        write = pick(self.writes, a)
        if write is None:
            return ""
        twice, lost = b % 16 == 1, b % 5 == 0
        if not twice:
            self.writes.remove(write)
        self.cluster.commit(lambda: self._written(write, lost=lost))
        return (
            f"{write.what} reaches etcd for {write.key} on version {write.version}"
            f"{', and will come again' if twice else ''}{'; its answer gets lost' if lost else ''}"
        )

    def _written(self, write: Write, *, lost: bool) -> None:
        cluster = self.cluster
        won = cluster.books[write.key].version == write.version or not self.rules.compares
        if won:
            cluster.revision += 1
            cluster.books[write.key] = Book(write.ledger, cluster.revision, write.counted)
            self.invariants.ledger(write.key, counts=write.counts)
        if not lost:
            write.answer(won)

    def _lose(self, a: int, _b: int, _c: int) -> str:
        write = pick(self.writes, a)
        if write is None:
            return ""
        self.writes.remove(write)
        return f"{write.what} for {write.key} is lost on its way"

    def _stall(self, _a: int, _b: int, _c: int) -> str:
        if self.cluster.stalled:
            return ""
        self.cluster.stalled = True
        return "etcd stalls"

    def _commit(self, a: int, _b: int, _c: int) -> str:
        """Go on inside etcd, and commit what waits there, in the order in which it came."""
        if self.cluster.stalled:
            if a % 4:
                return ""
            self.cluster.stalled = False
            return "etcd goes on"
        if not self.cluster.waiting:
            return ""
        self.cluster.waiting.pop(0)()
        return f"etcd commits the first of what waits (revision {self.cluster.revision})"

    def _forget(self, a: int, _b: int, _c: int) -> str:
        """A ledger is lost: a memory store's process restarted, or somebody removed the finalizer."""
        key = self.cluster.key(a)
        if self.cluster.books[key].ledger is None or self.cluster.waiting:
            return ""
        self.cluster.revision += 1
        self.cluster.books[key] = Book(None, self.cluster.revision, {})
        return f"the ledger {key} is lost"

    # Time, labels and policies

    def _tick(self, _a: int, _b: int, _c: int) -> str:
        self.cluster.now += 1
        return f"time {self.cluster.now}"

    def _relabel(self, a: int, b: int, _c: int) -> str:
        """A namespace goes into a cap, or out of it."""
        namespace, cap = a % self.scenario.namespaces, b % len(self.scenario.caps)
        labels = list(self.cluster.labels)
        labels[namespace] = labels[namespace] ^ {cap}
        self.cluster.relabel(tuple(labels))
        if cap in labels[namespace]:
            self._excuse_all(namespace, cap)
        going = "into" if cap in labels[namespace] else "out of"
        return f"namespace {namespace} goes {going} cap {cap} (revision {self.cluster.revision})"

    def _excuse_all(self, namespace: int, cap: int) -> None:
        keys = [key for key in keys_of(self.scenario, self.cluster.labels, namespace) if key.cap == cap]
        for uid, pod in self.cluster.pods.items():
            if pod.namespace == namespace:
                for key in keys:
                    for name in (X, Y):
                        self.invariants.excuse(key, uid, name)

    def _publish(self, a: int, b: int, c: int) -> str:
        """Another policy: another bound, or other names."""
        last = self.policies[-1]
        hard = list(last.hard)
        hard[a % len(hard)] = 1 + b % 8
        names = frozenset({X, Y}) if Y not in last.names else frozenset({X})
        self.policies.append(replace(last, hard=tuple(hard)) if c % 3 else replace(last, names=names))
        return f"policy {len(self.policies) - 1} is published: {hard if c % 3 else sorted(names)}"

    def _retire(self, a: int, _b: int, _c: int) -> str:
        """Another policy without a cap, or with it again as it was."""
        cap = a % len(self.scenario.caps)
        caps = self.policies[-1].caps ^ {cap}
        self.policies.append(replace(self.policies[-1], caps=caps))
        return f"policy {len(self.policies) - 1} is published, with{'' if cap in caps else 'out'} cap {cap}"
