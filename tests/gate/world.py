"""A gate, a keeper, and a cluster as watches show it: what is stored, deleted and seen is told step by step."""

import json
import math
from collections.abc import Callable
from typing import Any

from tests.gate.scene import CAP, GPU, Scene
from tests.state.attempts import Look
from tests.state.informers.pods import line, page
from tests.state.informers.pods import pod as stored_pod
from webhook.admission.cap_index import CapIndex
from webhook.gate.gate import Gate
from webhook.gate.ledger_reconciler import LedgerReconciler
from webhook.gate.top_consumers import TopConsumers
from webhook.gate.usage_lister import UsageLister
from webhook.kube.resource_codec import Changed, Deleted, Replaced, WatchEvent
from webhook.state.in_memory import MemoryLedgers
from webhook.state.informers.named_stores import NAMESPACE_CODEC, NamespaceRecord, NamespaceStore
from webhook.state.informers.pod_store import PodStore
from webhook.state.ledger.ledger import Ledger
from webhook.state.ports import LedgerKey, StoreUnavailableError, T, Transition

BOUND = 40.0


class _Quorum:
    """What a read of one pod says."""

    def __init__(self, truth: dict[str, dict[str, Any]]) -> None:
        self._truth = truth

    def read_pod_revision(self, namespace: str, name: str, uid: str) -> int | None:
        """The revision of what is stored."""
        found = self._truth.get(uid)
        if found is None:
            return None
        assert (found["metadata"]["namespace"], found["metadata"]["name"]) == (namespace, name)
        return int(found["metadata"]["resourceVersion"])


class _LosableLedgers(MemoryLedgers):
    """Ledgers that somebody may delete; where they are `kept`, this process may not.

    `answered` is called at the end of each transaction.
    """

    kept = False
    answered: Callable[[], None] | None = None

    def transact(self, key: LedgerKey, attempt: Transition[T], deadline: float) -> T:
        """As in memory."""
        if self.kept and attempt(self._ledgers.get(key)).is_removal:
            raise StoreUnavailableError("the gate must be allowed to delete capledgers")
        outcome = super().transact(key, attempt, deadline)
        if self.answered is not None:
            self.answered()
        return outcome

    def lose(self, key: LedgerKey) -> None:
        """This one is not there any more."""
        del self._ledgers[key]


class Told:
    """A role that a test gives."""

    def __init__(self) -> None:
        self.leading = True
        self.since: float | None = -math.inf

    def is_leader(self) -> bool:
        """As told."""
        return self.leading

    def get_loaded_everywhere_since(self, _: str) -> float | None:
        """As told."""
        return self.since

    def count_lost_replicas(self) -> int:
        """Nobody goes."""
        return 0


class World(Scene):
    """One replica with eyes; time, pods and namespaces move when a test says so."""

    def __init__(self, text: str = CAP, namespaces: tuple[str, ...] = ("team-a",)) -> None:
        self._losable = _LosableLedgers(is_standalone=False)
        super().__init__(text, ledgers=self._losable)
        self.at = 100
        self.pods, self.namespaces = PodStore(), NamespaceStore()
        self.truth: dict[str, dict[str, Any]] = {}
        self.hurries = 0
        self.seen_at: float | None = None
        self.sight = UsageLister(self.pods, self.namespaces, lambda: self.now, self._current_at, self._hurry)
        self.caps = CapIndex(self.policies)
        self.role = Told()
        telling = TopConsumers(lambda: self.now, self.sight, BOUND)
        self.gate = Gate(
            policies=lambda: self.policies,
            namespaces=self.namespaces,
            ledgers=self.ledgers,
            monotonic=lambda: self.now,
            nonce=self._nonce,
            usage_lister=self.sight,
            top_consumers=telling,
        )
        self.keeper = LedgerReconciler(
            caps=lambda: self.caps,
            usage_lister=self.sight,
            ledgers=self.ledgers,
            reader=_Quorum(self.truth),
            monotonic=self._tick,
            nonce=self._nonce,
            in_flight_bound=BOUND,
            ages=telling.ages,
            leadership=self.role,
        )
        self._count = 0
        self.namespaces.apply(Replaced([_namespace(name, self.at) for name in namespaces], self.at))
        self.pods.apply(page(self.at))

    def deadline(self) -> float:
        """Five seconds from now."""
        return self.now + 5.0

    def labelled(self, name: str, **labels: str) -> None:
        """A namespace comes, or is labelled."""
        self.at += 1
        self.namespaces.apply(Changed(_namespace(name, self.at, labels), self.at))

    def pass_away(self, name: str) -> None:
        """A namespace goes, and the watch tells."""
        self.at += 1
        self.namespaces.apply(Deleted(_namespace(name, self.at), self.at))

    def store(self, uid: str, gpus: int = 1, namespace: str = "team-a") -> dict[str, Any]:
        """A pod is stored; the watch has not told yet."""
        self.at += 1
        self.truth[uid] = stored_pod(uid, self.at, str(gpus), namespace)
        return self.truth[uid]

    def see(self, uid: str) -> None:
        """The watch tells of a pod as it is."""
        self._apply(line("MODIFIED", self.truth[uid]))

    def end(self, uid: str) -> None:
        """A pod is deleted, and the watch tells."""
        gone = self.truth.pop(uid)
        self.at += 1
        gone["metadata"]["resourceVersion"] = str(self.at)
        self._apply(line("DELETED", gone))

    def relist(self) -> None:
        """The watch broke, and begins again with a list."""
        self.at += 1
        self.pods.apply(page(self.at, *self.truth.values()))

    def keep(self, seconds: float = 0.0) -> None:
        """So much time passes, then every ledger is visited."""
        self.now += seconds
        keys = dict(self.keeper.list_ledgers([row.name for row in self.namespaces.list_records()]))
        for key, counted in keys.items():
            self.keeper.reconcile(key, counted)

    def keep_slowly(self, seconds: float) -> None:
        """Visit every ledger, where each transaction takes so many seconds."""

        def wait() -> None:
            self.now += seconds

        self._losable.answered = wait
        self.keep()
        self._losable.answered = None

    def lose(self, key: LedgerKey) -> None:
        """Somebody deletes a ledger."""
        self._losable.lose(key)

    def forbid_removal(self, *, is_forbidden: bool) -> None:
        """Whether ledgers may be taken away."""
        self._losable.kept = is_forbidden

    def open(self) -> None:
        """Let the ledgers be opened after the start: the bound, a write after it, a look after that."""
        for _ in range(3):
            self.keep(BOUND)

    def keep_open(self) -> None:
        """The ledgers that are not settled are visited, and those of whatever namespace there was."""
        caps = {counted.key: counted for counted in self.caps.list_caps()}
        keys = {key: caps[key.cap] for key in self.keeper.list_pending()} | dict(self.keeper.list_ledgers(["team-a"]))
        for key, counted in keys.items():
            self.keeper.reconcile(key, counted)

    def found(self, namespace: str = "team-a") -> Ledger | None:
        """The ledger of the only cap, if there is one."""
        (counted,) = self.caps.list_caps()
        return self.ledgers.transact(LedgerKey(counted.key, namespace), Look(), self.now + 1)

    def kept(self, namespace: str = "team-a") -> Ledger:
        """The ledger of the only cap."""
        (counted,) = self.caps.list_caps()
        key = LedgerKey(counted.key, "" if counted.definition.shared else namespace)
        found = self.ledgers.transact(key, Look(), self.now + 1)
        assert found is not None
        return found

    def sums(self, namespace: str = "team-a") -> tuple[int, int]:
        """GPUs held and promised."""
        ledger = self.kept(namespace)
        return ledger.used.get(GPU, 0), ledger.reserved.get(GPU, 0)

    def code(self, uid: str, gpus: int = 1, namespace: str = "team-a", **request: Any) -> int:
        """Ask for a pod to be created: 200, or the code of the refusal."""
        asked = stored_pod(uid, 0, str(gpus), namespace)
        answer = self.admit(asked, namespace=namespace, name=f"pod-{uid}", **request)
        said = json.loads(answer.body)["response"]
        return 200 if said["allowed"] else int(said["status"]["code"])

    def _apply(self, event: WatchEvent[Any]) -> None:
        assert isinstance(event, Changed | Deleted)
        self.pods.apply(event)

    def _current_at(self) -> float:
        """Views are never old here, unless a test says so."""
        return self.now if self.seen_at is None else self.seen_at

    def _hurry(self) -> None:
        self.hurries += 1

    def _nonce(self) -> str:
        self._count += 1
        return f"n{self._count}"

    def _tick(self) -> float:
        """Reads of a clock come one after another."""
        self.now += 0.001
        return self.now


def opened(text: str = CAP) -> World:
    """A world whose ledgers promise."""
    world = World(text)
    world.open()
    return world


def promised_and_stored(world: World, uid: str) -> None:
    """A pod is promised room, and stored; nobody has seen it yet."""
    assert world.code(uid) == 200
    world.store(uid)


def _namespace(name: str, revision: int, labels: dict[str, str] | None = None) -> NamespaceRecord:
    body = {"metadata": {"name": name, "uid": f"u-{name}", "resourceVersion": str(revision), "labels": labels or {}}}
    event = NAMESPACE_CODEC.decode_event(json.dumps({"type": "ADDED", "object": body}).encode())
    assert isinstance(event, Changed)
    row: NamespaceRecord = event.item
    return row
