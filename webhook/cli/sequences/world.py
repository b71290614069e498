"""A world for one sequence: the gate and the keeper of the server, an API server, controllers, and time.

Watches tell at once; ledgers are kept, and controllers try again, when time passes.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import msgspec

from webhook.accounting.amounts import Amounts
from webhook.admission.capping import ActiveCap
from webhook.cli.sequences.api_server import ApiServer
from webhook.cli.sequences.controllers import Controllers, Worked
from webhook.cli.sequences.model import Body
from webhook.cli.sequences.model import Sequence as Story
from webhook.cli.sequences.store import Key, Store
from webhook.gate.charging import ReadTransition
from webhook.gate.gate import Gate
from webhook.gate.ledger_reconciler import IN_FLIGHT_BOUND_SECONDS, LedgerReconciler
from webhook.gate.scheduling_snapshot import ClusterSnapshot
from webhook.gate.top_consumers import TopConsumers
from webhook.gate.usage_lister import UsageLister
from webhook.objects.core import Namespace
from webhook.state.in_memory import MemoryLedgers
from webhook.state.ledger.ledger import Ledger
from webhook.state.ports import LedgerKey
from webhook.state.watch.events import Changed, Event, Replaced
from webhook.state.watch.namespaces import NAMESPACES, NamespaceRow, NamespaceView, digest
from webhook.state.watch.nodes import NODES, NodeView
from webhook.state.watch.placing import ClusterView
from webhook.state.watch.pods import PodRow
from webhook.state.watch.view import PodView

_FIRST_VISIT: Final = 0.2  # as the server's keeper: soon after a change, then every second while something is promised
_NEXT_VISIT: Final = 1.0
_OPENING: Final = 3  # the bound, a write after it, a look after that (docs/caps.md, rule 7)
_PLENTY: Final = {"cpu": "1M", "memory": "1Pi", "ephemeral-storage": "1Pi", "pods": "100k"}
_NODE: Final = {"apiVersion": "v1", "kind": "Node"}
_NAMESPACE: Final = {"apiVersion": "v1", "kind": "Namespace"}


@dataclass(frozen=True, slots=True)
class Account:
    """One ledger as it is now; `hard` may be absent for a name that is only watched."""

    counted: ActiveCap
    namespace: str
    ledger: Ledger

    def free(self, name: str) -> int | None:
        """What is left of hard; None where nothing bounds it."""
        hard = self.counted.hard.get(name)
        return None if hard is None else max(hard - self.ledger.compute_charged().get(name, 0), 0)


class World:
    """Everything that a sequence meets, in the state in which it begins: ledgers open, no pods."""

    def __init__(self, story: Story) -> None:
        self.now = 1000.0
        self._nonces = itertools.count(1)
        self._pods, self._namespaces, self._nodes = PodView(), NamespaceView(), NodeView()
        self._placing = ClusterView(self._nodes, self._namespaces)
        self._reading = self._placing.reading(self._pods)
        self.store = Store(self._told)
        self._sight = UsageLister(self._pods, self._namespaces, self._time, self._time)
        self._ledgers = MemoryLedgers(is_standalone=False)
        telling = TopConsumers(self._time, self._sight)
        self._gate = Gate(
            policies=lambda: story.policies,
            namespaces=self._namespaces,
            ledgers=self._ledgers,
            monotonic=self._time,
            nonce=self._nonce,
            usage_lister=self._sight,
            top_consumers=telling,
            snapshots=self,
        )
        self._keeper = LedgerReconciler(
            caps=self._gate.get_active_caps,
            usage_lister=self._sight,
            ledgers=self._ledgers,
            reader=self,
            monotonic=self._time,
            nonce=self._nonce,
            ages=telling.ages,
        )
        self.api = ApiServer(self._gate, self.store, self._time)
        self.controllers = Controllers(self.api, self.store)
        self._begin(story)

    def is_available(self) -> bool:
        """Always: nothing is ever told too late here."""
        return True

    @contextmanager
    def open_snapshot(self, *, pods: bool) -> Iterator[ClusterSnapshot | None]:
        """The nodes, and the pods that name one: nobody schedules the others."""
        with self._placing.held(_FIRST_VISIT) as cluster:
            yield ClusterSnapshot(cluster, has_pods=pods) if cluster is not None else None

    def read_pod_revision(self, namespace: str, name: str, uid: str) -> int | None:
        """The revision of a stored pod, for the keeper; None when there is none of that name, or another one."""
        found = self.store.find(Key("Pod", namespace, name))
        return int(found["metadata"]["resourceVersion"]) if found and found["metadata"]["uid"] == uid else None

    def wait(self, seconds: float) -> Worked:
        """Let time pass. Controllers that were refused try again after 1, 2, 4, 8 … seconds."""
        begun, end = self.now, self.now + seconds
        worked, again = Worked(missing=self.controllers.missing), 1.0
        self.now = min(begun + _FIRST_VISIT, end)
        self._keep()
        while self.now < end:
            self.now = min(self.now + _NEXT_VISIT, end)
            if self.now >= begun + again:
                worked, again = worked + self.controllers.work(again=True), again * 2
            self._keep()
            if not self._keeper.list_pending():
                self.now = max(self.now, min(begun + again, end))
        return worked

    def accounts(self) -> list[Account]:
        """Every ledger that counts the pods of these namespaces, in the order of caps and namespaces."""
        found = [Account(counted, key.namespace, self._kept(key)) for key, counted in self._keys()]
        return sorted(found, key=lambda account: (account.counted.definition.name, account.namespace))

    def _begin(self, story: Story) -> None:
        names = story.namespaces.items()
        for name, body in story.nodes.items():
            metadata = {"name": name, "uid": self.store.uid(), "labels": body.get("labels", {})}
            status = {"allocatable": body.get("allocatable", {}), "capacity": body.get("allocatable", {})}
            self.store.put(Key("Node", "", name), {**_NODE, "metadata": metadata, "status": status})
        for name, labels in names:
            metadata = {"name": name, "uid": self.store.uid(), "labels": dict(labels)}
            self.store.put(Key("Namespace", "", name), {**_NAMESPACE, "metadata": metadata})
        rows = [_row(body) for _, body in self.store.every("Namespace")]
        self._namespaces.apply(Replaced(rows, self.store.revision))
        nodes = [NODES.event(_line("ADDED", _equipped(body))) for _, body in self.store.every("Node")]
        self._nodes.apply(Replaced([each.item for each in nodes if isinstance(each, Changed)], self.store.revision))
        self._hear(Replaced((), self.store.revision))
        for _ in range(_OPENING):
            self.now += IN_FLIGHT_BOUND_SECONDS
            self._keep()

    def _keep(self) -> None:
        for key, counted in self._keys():
            self._keeper.reconcile(key, counted)

    def _keys(self) -> Sequence[tuple[LedgerKey, ActiveCap]]:
        return list(self._keeper.list_ledgers([row.name for row in self._namespaces.rows()]))

    def _kept(self, key: LedgerKey) -> Ledger:
        return self._ledgers.transact(key, ReadTransition(), math.inf) or Ledger(Amounts())

    def _told(self, event: str, key: Key, body: Body) -> None:
        """What the watches hear; before the first list they hear nothing."""
        if key.kind == "Pod":
            self._hear(self._reading.event(_line(event, body)))
        elif key.kind == "Namespace":
            self._namespaces.apply(NAMESPACES.event(_line(event, body)))
        elif key.kind == "Node":
            self._nodes.apply(NODES.event(_line(event, _equipped(body))))

    def _hear(self, event: Event[PodRow]) -> None:
        self._pods.apply(event)
        self._placing.apply(event)

    def _time(self) -> float:
        return self.now

    def _nonce(self) -> str:
        return f"attempt-{next(self._nonces)}"


def _line(event: str, body: Body) -> bytes:
    return msgspec.json.encode({"type": event, "object": body})


def _equipped(node: Body) -> Body:
    """A node with plenty of what every node has and a story seldom says."""
    status = node.get("status") or {}
    has = status.get("allocatable") or status.get("capacity") or {}
    return {**node, "status": {**status, "allocatable": {**_PLENTY, **has}}}


def _row(body: Body) -> NamespaceRow:
    return digest(msgspec.json.decode(msgspec.json.encode(body), type=Namespace))
