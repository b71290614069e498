"""The actors of the world and their steps: users, the API server, etcd and the replicas."""

from collections.abc import Mapping

from tallygate.webhook.gate.charging import ChargedConsumer
from tallygate.webhook.state.ledger.ledger import Operation
from tallygate.webhook.state.ports import LedgerKey, RetryLaterError, StoreUnavailableError
from tests.gate.simulation.environment import OLD_NAMESPACES, Environment, Request, RequestState, StepFunction
from tests.gate.simulation.ground_truth import ALL_CAPS, CAP_NAMES, WITHOUT_SHARED, Pod
from tests.gate.simulation.replica import BOUND, Replica
from tests.gate.simulation.tasks import Task
from tests.schedules import pick

_MAX_REQUESTS = 6
_MAX_TASKS = 9
_NEW_NAMESPACES = ("team-2", "team-3")


class Users:
    """Users create, change and delete pods and namespaces, and publish policies."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._truth = environment.truth
        self._requests = environment.requests
        self._uids = 0
        self.steps: Mapping[str, StepFunction] = {
            "create": self._create,
            "change": self._change,
            "delete": self._delete,
            "end": self._end,
            "create_namespace": self._create_namespace,
            "delete_namespace": self._delete_namespace,
            "relabel": self._relabel,
            "publish": self._publish,
        }

    def _create(self, a: int, b: int) -> str:
        self._uids += 1
        namespace = list(self._truth.namespaces)[a % len(self._truth.namespaces)]
        now, token = self._truth.now, self._environment.token
        return self._send(Request(Operation.CREATE, f"u{self._uids}", namespace, 0, 1 + b % 3, now, token))

    def _change(self, a: int, b: int) -> str:
        pods = [pod for pod in self._truth.pods.values() if not pod.ended]
        if not pods:
            return ""
        pod = pods[a % len(pods)]
        now, token = self._truth.now, self._environment.token
        return self._send(
            Request(Operation.UPDATE, pod.uid, pod.namespace, pod.size, 1 + b % 4, now, token, pod.revision)
        )

    def _send(self, request: Request) -> str:
        if len(self._requests) >= _MAX_REQUESTS:
            return ""
        self._requests.append(request)
        return f"{request.operation} {request.uid} in {request.namespace}: {request.old_size} → {request.size}"

    def _delete(self, a: int, _b: int) -> str:
        if self._truth.is_stalled or not self._truth.pods:
            return ""
        uid = self._pick_uid(a)
        self._truth.delete(uid)
        return f"{uid} is deleted (revision {self._truth.revision})"

    def _end(self, a: int, _b: int) -> str:
        if self._truth.is_stalled or not self._truth.pods:
            return ""
        uid = self._pick_uid(a)
        self._truth.put(self._truth.pods[uid]._replace(ended=True))
        return f"{uid} ends (revision {self._truth.revision})"

    def _pick_uid(self, number: int) -> str:
        return sorted(self._truth.pods)[number % len(self._truth.pods)]

    def _create_namespace(self, a: int, _b: int) -> str:
        names = [each for each in _NEW_NAMESPACES if each not in self._truth.namespaces]
        if not names:
            return ""
        name = names[a % len(names)]
        self._truth.create_namespace(name)
        return f"{name} is created (revision {self._truth.revision})"

    def _delete_namespace(self, a: int, _b: int) -> str:
        """Delete a namespace. Another of its name may be created before every replica has seen the deletion."""
        names = [each for each in _NEW_NAMESPACES if each in self._truth.namespaces]
        if not names or self._truth.is_stalled or self._truth.waiting:
            return ""
        name = names[a % len(names)]
        self._truth.delete_namespace(name)
        return f"{name} is deleted (revision {self._truth.revision})"

    def _relabel(self, a: int, b: int) -> str:
        """Let a namespace leave a cap, or return to it with the pods that were stored meanwhile."""
        if self._truth.is_stalled:
            return ""
        name, cap = list(self._truth.namespaces)[a % len(self._truth.namespaces)], CAP_NAMES[b % len(CAP_NAMES)]
        returns = self._truth.relabel(name, cap)
        if returns:
            self._environment.invariants.excuse_returned(name, cap)
        return f"{name} {'returns to' if returns else 'leaves'} cap {cap} (revision {self._truth.revision})"

    def _publish(self, _a: int, _b: int) -> str:
        """Publish a policy without the shared cap, or with it again."""
        is_whole = self._environment.caps is ALL_CAPS
        self._environment.caps = WITHOUT_SHARED if is_whole else ALL_CAPS
        return f"a policy is published {'without' if is_whole else 'with'} the shared cap"


class ApiServer:
    """The API server calls the webhook, repeatedly if need be, and stores allowed requests within the bound.

    Of the calls for one request only the last one counts.
    """

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._truth = environment.truth
        self._requests = environment.requests
        self.steps: Mapping[str, StepFunction] = {"call": self._call, "store": self._store}

    def _call(self, a: int, b: int) -> str:
        """Call a replica: the first time, or again while the previous call may still run."""
        request = pick([each for each in self._requests if each.state is RequestState.CALLING], a)
        replica = self._environment.find_running(b)
        if request is None or replica is None or len(self._environment.running) >= _MAX_TASKS:
            return ""
        if self._has_timed_out(request):
            return f"{request.uid} has timed out"
        if (request.task is not None and b % 5) or not replica.knows_namespace(request.namespace):
            return ""
        task = request.task = self._environment.start_task(replica, lambda: self._attempt(task, request, replica))
        return f"replica {replica.number} is called for {request.uid}"

    def _has_timed_out(self, request: Request) -> bool:
        """Return whether the in-flight bound of a request is over, and remove the request then."""
        if self._truth.now - request.arrived_at < BOUND:
            return False
        self._requests.remove(request)
        return True

    def _attempt(self, task: Task, request: Request, replica: Replica) -> None:
        pod = ChargedConsumer(
            request.uid, request.namespace, f"pod-{request.uid}", replica.create_nonce(), request.operation
        )
        reserved: frozenset[LedgerKey] = frozenset()
        loaded, seen = replica.loaded, replica.list_seen_revisions()
        try:
            is_admitted, keys = replica.charge(pod, request.old_size, request.size)
            reserved = frozenset(keys)
        except (RetryLaterError, StoreUnavailableError):
            is_admitted = False
        if request.task is not task or request.state is not RequestState.CALLING or request not in self._requests:
            return  # the API server no longer waits for this call
        if not is_admitted:
            self._requests.remove(request)
            return
        request.state, request.reserved = RequestState.ALLOWED, reserved
        request.namespaces_revision = seen.namespaces
        for key in reserved:
            self._environment.invariants.check_ledger(key)
            self._environment.invariants.check_reservation(key, pod, loaded.get(key.cap, 0), seen)

    def _store(self, a: int, _b: int) -> str:
        """Send an allowed request to etcd, before its in-flight bound is over."""
        request = pick([each for each in self._requests if each.state is RequestState.ALLOWED], a)
        if request is None:
            return ""
        if self._has_timed_out(request):
            return f"{request.uid} has timed out"
        request.state = RequestState.SENT
        self._truth.commit(lambda: self._commit(request))
        return f"{request.operation} {request.uid} is sent to etcd"

    def _commit(self, request: Request) -> None:
        pod = self._truth.pods.get(request.uid)
        if request.operation is Operation.CREATE and request.namespace not in self._truth.namespaces:
            self._requests.remove(request)
            return
        if request.operation is Operation.CREATE:
            new = Pod(request.uid, request.namespace, request.size)
        elif pod is not None and pod.revision == request.old_revision:
            new = pod._replace(size=request.size)
        elif pod is not None and not pod.ended:  # the stored pod has changed: admission runs again
            request.old_revision, request.old_size = pod.revision, pod.size
            request.state, request.task = RequestState.CALLING, None
            return
        else:
            self._requests.remove(request)
            return
        self._requests.remove(request)
        self._truth.put(new)
        self._environment.invariants.check_stored_pod(new.uid, request.reserved, request.namespaces_revision)


class Etcd:
    """Etcd stalls and continues, receives late writes, and loses ledgers that users delete."""

    def __init__(self, environment: Environment) -> None:
        self._truth = environment.truth
        self.steps: Mapping[str, StepFunction] = {
            "stall": self._stall,
            "commit": self._commit,
            "arrive": self._arrive,
            "delete_ledger": self._delete_ledger,
            "delete_empty_ledger": self._delete_empty_ledger,
        }

    def _stall(self, _a: int, _b: int) -> str:
        if self._truth.is_stalled:
            return ""
        self._truth.is_stalled = True
        return "etcd stalls"

    def _commit(self, a: int, _b: int) -> str:
        """End a stall, or commit the first waiting transaction."""
        if self._truth.is_stalled:
            self._truth.is_stalled = a % 4 != 0
            return "" if self._truth.is_stalled else "etcd continues"
        if not self._truth.waiting:
            return ""
        self._truth.waiting.pop(0)()
        return f"etcd commits the first waiting transaction (revision {self._truth.revision})"

    def _arrive(self, a: int, _b: int) -> str:
        """Let a late write arrive."""
        if not self._truth.late:
            return ""
        self._truth.commit(self._truth.late.pop(a % len(self._truth.late)))
        return "a late write arrives"

    def _delete_ledger(self, a: int, _b: int) -> str:
        """Delete a ledger, unless its namespace may be new (docs/design/caps.md)."""
        return self._delete(a, [key for key in self._truth.ledgers if key.namespace in {"", *OLD_NAMESPACES}])

    def _delete_empty_ledger(self, a: int, _b: int) -> str:
        """Delete an active ledger without used amounts and reservations, which is correct at any time."""
        ledgers = self._truth.ledgers.items()
        return self._delete(
            a, [key for key, (each, _) in ledgers if not (each.reservations or each.used or each.initializer)]
        )

    def _delete(self, number: int, keys: list[LedgerKey]) -> str:
        if not keys or self._truth.waiting or self._truth.is_stalled:
            return ""
        key = keys[number % len(keys)]
        del self._truth.ledgers[key]
        return f"the ledger {key} is deleted"


class Replicas:
    """The replicas continue their tasks, watch, reconcile, load policies, freeze, crash and lead."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self.steps: Mapping[str, StepFunction] = {
            "proceed": self._proceed,
            "reconcile": self._reconcile,
            "watch": self._watch,
            "watch_namespaces": self._watch_namespaces,
            "request_progress": self._request_progress,
            "bookmark": self._bookmark,
            "relist": self._relist,
            "crash": self._crash,
            "freeze": self._freeze,
            "thaw": self._thaw,
            "lead": self._lead,
            "load": self._load,
        }

    def _proceed(self, a: int, b: int) -> str:
        """Run a task up to one of its next pauses."""
        running, replicas = self._environment.running, self._environment.replicas
        task = pick([each for each in running if not replicas[each.replica].is_frozen], a)
        if task is None:
            return ""
        for shift in range(1 + b % 3):
            if not task.is_over:
                task.proceed(b >> shift)
        if not task.is_over:
            return f"replica {task.replica} {task.pause_name}"
        running.remove(task)
        if task.failure is not None:
            raise task.failure
        return f"replica {task.replica} is done"

    def _reconcile(self, a: int, b: int) -> str:
        replica = self._environment.find_running(a)
        ledgers = replica.list_ledgers() if replica else []
        running = self._environment.running
        if replica is None or not ledgers or any(each.token < 0 and each.replica == replica.number for each in running):
            return ""
        key, cap = ledgers[b % len(ledgers)]

        def reconcile() -> None:
            try:
                replica.reconciler.reconcile(key, cap)
            except (RetryLaterError, StoreUnavailableError):
                return

        task = self._environment.start_task(replica, reconcile)
        task.token = ~self._environment.token  # negative: a replica has one thread that reconciles
        return f"replica {replica.number} reconciles {key.namespace or 'the shared ledger'}"

    def _watch(self, a: int, b: int) -> str:
        replica = self._environment.find_running(a)
        if replica is None or not replica.watch(1 + b % 3):
            return ""
        return f"replica {replica.number} sees pods up to {replica.pods.revision}"

    def _watch_namespaces(self, a: int, _b: int) -> str:
        replica = self._environment.find_running(a)
        return f"replica {replica.number} sees a namespace" if replica and replica.watch_namespaces() else ""

    def _request_progress(self, a: int, _b: int) -> str:
        replica = self._environment.find_running(a)
        if replica is None:
            return ""
        replica.request_progress()
        return f"replica {replica.number} requests the revision of the cluster"

    def _bookmark(self, a: int, _b: int) -> str:
        replica = self._environment.find_running(a)
        return f"replica {replica.number} receives a bookmark" if replica and replica.receive_bookmark() else ""

    def _relist(self, a: int, _b: int) -> str:
        replica = self._environment.find_running(a)
        if replica is None:
            return ""
        replica.relist()
        return f"replica {replica.number} lists pods again (revision {self._environment.truth.revision})"

    def _crash(self, a: int, _b: int) -> str:
        number = a % len(self._environment.replicas)
        for task in [each for each in self._environment.running if each.replica == number]:
            task.kill()
            self._environment.running.remove(task)
            for request in self._environment.requests:
                request.task = None if request.task is task else request.task
        self._environment.replicas[number] = self._environment.create_replica(number)
        return f"replica {number} crashes and starts again"

    def _freeze(self, a: int, _b: int) -> str:
        replica = self._environment.find_running(a)
        if replica is None:
            return ""
        replica.is_frozen = True
        return f"replica {replica.number} freezes"

    def _thaw(self, a: int, _b: int) -> str:
        replica = self._environment.replicas[a % len(self._environment.replicas)]
        if not replica.is_frozen:
            return ""
        replica.is_frozen = False
        return f"replica {replica.number} thaws"

    def _lead(self, a: int, _b: int) -> str:
        """Let a replica acquire the lease, or lose it."""
        replica = self._environment.replicas[a % len(self._environment.replicas)]
        replica.leads = not replica.leads
        return f"replica {replica.number} {'acquires' if replica.leads else 'loses'} the lease"

    def _load(self, a: int, _b: int) -> str:
        replica = self._environment.find_running(a)
        if replica is None or replica.caps is self._environment.caps:
            return ""
        replica.load(self._environment.caps)
        return f"replica {replica.number} loads the policy"
