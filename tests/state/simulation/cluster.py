"""The truth: what the API server has stored, what waits inside etcd, and the ledgers with their versions."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from tests.state.simulation.rules import Counted
from tests.state.simulation.scenario import Cap, Scenario, X, Y
from webhook.accounting.amounts import Amounts
from webhook.state.ledger.ledger import Ledger

Labels = tuple[frozenset[int], ...]
"""For each namespace, the caps whose selector its labels fulfil."""


class Key(NamedTuple):
    """One ledger: a cap, and its namespace unless it is shared (-1)."""

    cap: int
    namespace: int


class Pod(NamedTuple):
    """A stored pod: `size` units of x and twice as many of y; `classed` is what filtered caps look for."""

    uid: str
    namespace: int
    name: str
    size: int
    classed: bool
    ended: bool
    revision: int
    token: int = 0


class Book(NamedTuple):
    """A ledger as it is stored, or none; `counted` is what its tally says of each pod."""

    ledger: Ledger | None
    version: int
    counted: Counted


class Write:
    """A write of a ledger on its way: computed from one version, and of no effect on any other.

    `counts` says that it is a recount and nothing else.
    """

    def __init__(self, key: Key, ledger: Ledger, counted: Counted, version: int, what: str) -> None:
        self.key = key
        self.ledger = ledger
        self.counted = counted
        self.version = version
        self.what = what
        self.counts = False
        self.token = 0
        self.answer: Callable[[bool], None] = lambda _: None


@cache
def amounts(size: int, names: frozenset[str]) -> Amounts:
    """What a pod of that size holds of these names; a name it has nothing of is absent."""
    held = {X: size, Y: 2 * size}
    return Amounts({name: held[name] for name in names if held[name]})


@dataclass
class Cluster:
    """API server and etcd. Revisions are etcd's, one counter for everything."""

    scenario: Scenario
    now: int = 0
    revision: int = 1
    stalled: bool = False
    pods: dict[str, Pod] = field(default_factory=dict)
    log: list[tuple[int, str, Pod | None]] = field(default_factory=list)
    names: dict[tuple[int, str], str] = field(default_factory=dict)
    label_log: list[tuple[int, Labels]] = field(default_factory=list)
    entered: dict[tuple[int, int], int] = field(default_factory=dict)
    """When a namespace last went into a cap by its labels."""
    books: dict[Key, Book] = field(default_factory=dict)
    waiting: list[Callable[[], None]] = field(default_factory=list)
    """What has reached etcd and not committed: first come, first committed, whoever asked and whoever still waits."""

    @property
    def labels(self) -> Labels:
        """The namespaces' labels now."""
        return self.label_log[-1][1]

    def cap(self, key: Key) -> Cap:
        """The cap of a ledger."""
        return self.scenario.caps[key.cap]

    def ledgers(self) -> list[Key]:
        """Every ledger that there can be."""
        return list(self.books)

    def key(self, number: int) -> Key:
        """One of them, by number."""
        keys = self.ledgers()
        return keys[number % len(keys)]

    def commit(self, transaction: Callable[[], None]) -> None:
        """Hand a transaction to etcd: at once, unless something waits there already."""
        if self.stalled or self.waiting:
            self.waiting.append(transaction)
        else:
            transaction()

    def put(self, pod: Pod) -> Pod:
        """Store a pod at the next revision."""
        self.revision += 1
        stored = pod._replace(revision=self.revision)
        self.pods[pod.uid] = stored
        self.names[pod.namespace, pod.name] = pod.uid
        self.log.append((self.revision, pod.uid, stored))
        return stored

    def remove(self, uid: str) -> None:
        """Delete a pod."""
        self.revision += 1
        pod = self.pods.pop(uid)
        del self.names[pod.namespace, pod.name]
        self.log.append((self.revision, uid, None))

    def relabel(self, labels: Labels) -> None:
        """Give the namespaces other labels."""
        self.revision += 1
        before = self.labels
        self.label_log.append((self.revision, labels))
        for namespace, caps in enumerate(labels):
            self.entered |= {(namespace, cap): self.revision for cap in caps - before[namespace]}


def keys_of(scenario: Scenario, labels: Labels, namespace: int) -> list[Key]:
    """The ledgers over a namespace under these labels, in the order in which they are written."""
    return [
        Key(number, -1 if cap.shared else namespace)
        for number, cap in enumerate(scenario.caps)
        if number in labels[namespace]
    ]


def members(scenario: Scenario, labels: Labels, key: Key) -> str:
    """The namespaces that draw on a ledger under these labels, as a hash would say."""
    if scenario.caps[key.cap].shared:
        return ",".join(str(number) for number, caps in enumerate(labels) if key.cap in caps)
    return str(key.namespace) if key.cap in labels[key.namespace] else ""


def is_under(scenario: Scenario, labels: Labels, key: Key, pod: Pod) -> bool:
    """Whether a cap holds a pod under these labels: its namespace, and what the cap filters by."""
    if key.cap not in labels[pod.namespace] or key.namespace not in {-1, pod.namespace}:
        return False
    return pod.classed or not scenario.caps[key.cap].filtered


def size_under(scenario: Scenario, labels: Labels, key: Key, pod: Pod | None) -> int:
    """What a pod holds under a cap, in units of x."""
    if pod is None or pod.ended or not is_under(scenario, labels, key, pod):
        return 0
    return pod.size
