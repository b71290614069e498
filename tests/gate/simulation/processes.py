"""Replicas as processes: they go on with what is under way, see, keep and load; they freeze, crash and lead."""

from collections.abc import Mapping

from tests.gate.simulation.ground import Act, Ground
from tests.state.simulation.picking import pick
from webhook.state.ports import RetryLaterError, StoreUnavailableError


class Processes:
    """Whom or what a step is about, it chooses by its first number; who is frozen does nothing."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self.acts: Mapping[str, Act] = {
            "go": self._go,
            "visit": self._visit,
            "watch": self._watch,
            "names": self._names,
            "ask": self._ask,
            "bookmark": self._bookmark,
            "relist": self._relist,
            "crash": self._crash,
            "freeze": self._freeze,
            "thaw": self._thaw,
            "lead": self._lead,
            "load": self._load,
        }

    def _go(self, a: int, b: int) -> str:
        task = pick([each for each in self._ground.under_way if not self._ground.replicas[each.replica].frozen], a)
        if task is None:
            return ""
        for order in range(1 + b % 3):
            if not task.is_over:
                task.go(b >> order)
        if not task.is_over:
            return f"replica {task.replica} {task.where}"
        self._ground.under_way.remove(task)
        if task.failure is not None:
            raise task.failure
        return f"replica {task.replica} is done"

    def _visit(self, a: int, b: int) -> str:
        replica = self._ground.awake(a)
        keys = replica.keys() if replica else []
        if (
            replica is None
            or not keys
            or any(each.token < 0 and each.replica == replica.number for each in self._ground.under_way)
        ):
            return ""
        key, counted = keys[b % len(keys)]

        def visit() -> None:
            try:
                replica.keeper.reconcile(key, counted)
            except (RetryLaterError, StoreUnavailableError):
                return

        self._ground.task(replica, visit).token = ~self._ground.token  # below zero: a keeper is one thread
        return f"replica {replica.number} visits {key.namespace or 'the shared ledger'}"

    def _watch(self, a: int, b: int) -> str:
        replica = self._ground.awake(a)
        if replica is None or not replica.watch(1 + b % 3):
            return ""
        return f"replica {replica.number} sees pods up to {replica.pods.revision}"

    def _names(self, a: int, _b: int) -> str:
        replica = self._ground.awake(a)
        return f"replica {replica.number} sees a namespace" if replica and replica.watch_namespaces() else ""

    def _ask(self, a: int, _b: int) -> str:
        replica = self._ground.awake(a)
        if replica is None:
            return ""
        replica.ask()
        return f"replica {replica.number} asks where the cluster is"

    def _bookmark(self, a: int, _b: int) -> str:
        replica = self._ground.awake(a)
        return f"replica {replica.number} has seen all" if replica and replica.bookmark() else ""

    def _relist(self, a: int, _b: int) -> str:
        replica = self._ground.awake(a)
        if replica is None:
            return ""
        replica.relist()
        return f"replica {replica.number} lists pods anew (revision {self._ground.truth.revision})"

    def _crash(self, a: int, _b: int) -> str:
        number = a % len(self._ground.replicas)
        for task in [each for each in self._ground.under_way if each.replica == number]:
            task.kill()
            self._ground.under_way.remove(task)
            for request in self._ground.requests:
                request.task = None if request.task is task else request.task
        self._ground.replicas[number] = self._ground.replica(number)
        return f"replica {number} crashes and begins anew"

    def _freeze(self, a: int, _b: int) -> str:
        replica = self._ground.awake(a)
        if replica is None:
            return ""
        replica.frozen = True
        return f"replica {replica.number} freezes"

    def _thaw(self, a: int, _b: int) -> str:
        replica = self._ground.replicas[a % len(self._ground.replicas)]
        if not replica.frozen:
            return ""
        replica.frozen = False
        return f"replica {replica.number} goes on"

    def _lead(self, a: int, _b: int) -> str:
        """A lease comes, or lapses."""
        replica = self._ground.replicas[a % len(self._ground.replicas)]
        replica.leading = not replica.leading
        return f"replica {replica.number} {'takes itself for the leader' if replica.leading else 'leads no more'}"

    def _load(self, a: int, _b: int) -> str:
        replica = self._ground.awake(a)
        if replica is None or replica.caps is self._ground.caps:
            return ""
        replica.load(self._ground.caps)
        return f"replica {replica.number} loads it"
