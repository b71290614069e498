"""The steps of the replicas: they continue their tasks, watch, reconcile, load policies, freeze, crash and lead."""

from collections.abc import Mapping, Sequence

from tallygate.state.ports import RetryLaterError, StoreUnavailableError
from tests.gate.simulation.environment import Environment, StepFunction
from tests.gate.simulation.replica import BOUND
from tests.schedules import pick

ANSWERED = 30
"""A number with which no call is lost."""


class Replicas:
    """The replicas and their tasks."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self.steps: Mapping[str, StepFunction] = {
            "proceed": self._proceed,
            "run": self._run,
            "reconcile": self._reconcile,
            "watch": self._watch,
            "watch_devices": self._watch_devices,
            "watch_namespaces": self._watch_namespaces,
            "request_progress": self._request_progress,
            "bookmark": self._bookmark,
            "relist": self._relist,
            "crash": self._crash,
            "freeze": self._freeze,
            "thaw": self._thaw,
            "lead": self._lead,
            "load": self._load,
            "record": self._record,
        }

    def _proceed(self, a: int, b: int) -> str:
        """Run a task up to one of its next pauses."""
        return self._run_task(a, [b >> shift for shift in range(1 + b % 3)])

    def _run(self, a: int, b: int) -> str:
        """Run a task up to one of its later pauses; every call is answered."""
        return self._run_task(a, [ANSWERED] * (4 + b % 30))

    def _run_task(self, number: int, choices: Sequence[int]) -> str:
        running, replicas = self._environment.running, self._environment.replicas
        task = pick([each for each in running if not replicas[each.replica].is_frozen], number)
        if task is None:
            return ""
        for choice in choices:
            if not task.is_over:
                task.proceed(choice)
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
        replica.check_limits()

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
        if replica is None or not replica.watches[0].receive(1 + b % 3):
            return ""
        return f"replica {replica.number} sees pods up to {replica.pods.revision}"

    def _watch_devices(self, a: int, b: int) -> str:
        """Receive events of claims, or sometimes of slices."""
        replica = self._environment.find_running(a)
        watch = replica.watches[2 if b % 4 == 0 else 1] if replica else None
        if replica is None or watch is None or not watch.receive(1 + (b >> 2) % 3):
            return ""
        return f"replica {replica.number} sees {watch.name}"

    def _watch_namespaces(self, a: int, _b: int) -> str:
        replica = self._environment.find_running(a)
        return f"replica {replica.number} sees a namespace" if replica and replica.watch_namespaces() else ""

    def _request_progress(self, a: int, _b: int) -> str:
        replica = self._environment.find_running(a)
        if replica is None:
            return ""
        for watch in replica.watches:
            watch.request_progress()
        return f"replica {replica.number} requests the revision of the cluster"

    def _bookmark(self, a: int, b: int) -> str:
        replica = self._environment.find_running(a)
        watch = replica.watches[b % len(replica.watches)] if replica else None
        if replica is None or watch is None or not watch.receive_bookmark():
            return ""
        return f"replica {replica.number} receives a bookmark of {watch.name}"

    def _relist(self, a: int, b: int) -> str:
        replica = self._environment.find_running(a)
        if replica is None:
            return ""
        watch = replica.watches[b % len(replica.watches)]
        watch.relist()
        return f"replica {replica.number} lists {watch.name} again (revision {self._environment.truth.revision})"

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
        if replica is None or replica.policy is self._environment.policy:
            return ""
        replica.load(self._environment.policy)
        return f"replica {replica.number} loads the policy"

    def _record(self, _a: int, _b: int) -> str:
        """Let the leader record a new cap, once every replica has had it for the bound."""
        truth, replicas = self._environment.truth, self._environment.replicas
        everywhere = set.intersection(*({cap.key for cap in each.get_caps().list_caps()} for each in replicas))
        truth.loaded_at = {cap: truth.loaded_at.get(cap, truth.now) for cap in everywhere}
        due = {cap for cap, since in truth.loaded_at.items() if truth.now >= since + BOUND} - truth.recorded
        if not due or truth.is_stalled:
            return ""
        truth.recorded |= due
        for cap in due:
            truth.enforced.setdefault(cap, truth.now)
        return f"the leader records {', '.join(sorted(due))}"
