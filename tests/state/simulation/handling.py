"""One admission attempt, from the API server's call to its answer, step by step as the gate's charging does it.

Between any two steps anything may happen to everybody else; a handler that is not stepped is a slow or frozen one. That
the API server has given up waiting for it does not stop it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from tests.state.simulation.cluster import Cluster, Key, Write, amounts, keys_of, members, size_under
from tests.state.simulation.observing import Replica
from tests.state.simulation.rules import Rules
from tests.state.simulation.scenario import X
from tests.state.simulation.violation import ViolationError
from webhook.accounting.amounts import Amounts
from webhook.state.ledger.ledger import Ledger, Operation
from webhook.state.ledger.recount import StaleSnapshot
from webhook.state.ledger.reserve import Deferred, Exceeded, Prerequisite, ReservationRequest, Reserved


@dataclass
class Policy:
    """What a policy file says: the bound of each cap, the names that count, and the caps that are in force."""

    hard: tuple[int, ...]
    names: frozenset[str]
    caps: frozenset[int]

    def bounds(self, key: Key) -> Amounts:
        """What a cap allows."""
        return amounts(self.hard[key.cap], self.names)


class State(StrEnum):
    """Where the API server is with a request."""

    CALLING = "calling"
    ALLOWED = "allowed"
    SENT = "sent"
    OVER = "over"


@dataclass
class Request:
    """A creation or a change, as the API server has it; `seen` is the revision of the object that it would replace."""

    uid: str
    kind: Operation
    namespace: int
    name: str
    size: int
    classed: bool
    arrived: int
    seen: int = 0
    old_size: int = 0
    old_classed: bool = False
    state: State = State.CALLING
    handler: "Handler | None" = None
    promised: frozenset[Key] = frozenset()
    judged: frozenset[Key] = frozenset()
    names: frozenset[str] = frozenset()
    label_revision: int = 0
    token: int = 0

    def held(self, cluster: Cluster, key: Key) -> tuple[int, int]:
        """What the stored and the asked-for pod hold under a cap."""
        filtered = cluster.cap(key).filtered
        old = self.old_size if self.old_classed or not filtered else 0
        return old, self.size if self.classed or not filtered else 0


class Phase(StrEnum):
    """What an attempt does next."""

    CHECK = "check"
    RESERVE = "reserve"
    WAIT = "wait"
    BACK = "take back"
    OVER = "over"


@dataclass
class Handler:
    """One attempt: a call of the webhook, at one replica, under one policy."""

    by: str
    request: Request
    replica: Replica
    policy: Policy
    cluster: Cluster
    rules: Rules
    send: Callable[[Write], bool]
    confirmed: dict[Key, None] = field(default_factory=dict)
    tried: dict[Key, None] = field(default_factory=dict)
    answered: bool | None = None
    token: int = 0
    allows: bool = False

    def __post_init__(self) -> None:
        self._begin()

    @property
    def name(self) -> str:
        """Its nonce without the time that its replica's clock said: nobody may make anything of that."""
        return self.by.partition("@")[0]

    def _begin(self) -> None:
        replica = self.replica
        self.labels, self.label_revision = replica.labels, replica.label_revision
        keys = keys_of(self.cluster.scenario, self.labels, self.request.namespace)
        self.keys = [key for key in keys if key.cap in self.policy.caps]
        self.at = 0
        self.phase = Phase.CHECK if len(self.keys) > 1 else Phase.RESERVE

    def step(self, choice: int) -> str:
        """Go on, as far as the next thing that others could come between; says what was done, or nothing."""
        match self.phase:
            case Phase.CHECK:
                return self._check()
            case Phase.RESERVE:
                return self._reserve(carries=choice % 4 == 0)
            case Phase.WAIT:
                return self._wait(asks=choice % 3 == 0)
            case Phase.BACK:
                return self._take_back(asks=choice % 3 == 0)
            case _:
                return ""

    def give_up(self) -> str:
        """The deadline of the attempt itself."""
        if self.phase in {Phase.BACK, Phase.OVER}:
            return ""
        self.phase = Phase.BACK
        return "gives up"

    def _check(self) -> str:
        for key in self.keys:
            ledger = self.cluster.books[key].ledger
            if ledger is not None and isinstance(self.rules.reserve(ledger, self._wanted(key)), Exceeded):
                self.phase = Phase.BACK
                return f"is refused by {key} before anything is written"
        self.phase = Phase.RESERVE
        return "finds room everywhere"

    def _reserve(self, *, carries: bool) -> str:
        if self.at == len(self.keys):
            self.allows, self.phase = True, Phase.OVER
            return "allows"
        key = self.keys[self.at]
        if key in self.confirmed:
            self.at += 1
            return f"has {key} already"
        book = self.cluster.books[key]
        if book.ledger is None:
            self._send(Write(key, self.rules.made(self.policy.bounds(key), self.by), {}, book.version, "make"))
            self.phase = Phase.BACK
            return f"finds no ledger {key} and makes one"
        ledger, counted = book.ledger, book.counted
        answer = self.rules.reserve(ledger, self._wanted(key))
        needs = isinstance(answer, Deferred) and answer.prerequisite not in {
            Prerequisite.ACTIVATE,
            Prerequisite.CATCH_UP,
        }
        if needs or carries:
            view = self.replica.view(key, self.policy.names | ledger.resources)
            after = self.rules.recount(ledger, view)
            if isinstance(after, StaleSnapshot):
                return ""
            ledger, counted = after, self.rules.tallied(counted, after, view)
            answer = self.rules.reserve(ledger, self._wanted(key))
        write = Write(key, ledger, counted, book.version, f"reserve {self.request.uid}")
        return self._answered(answer, write)

    def _answered(self, answer: Reserved | Exceeded | Deferred, write: Write) -> str:
        key = write.key
        if isinstance(answer, Exceeded):
            self.phase = Phase.BACK
            return f"is refused by {key}"
        if isinstance(answer, Reserved) and answer.needs_no_write:
            self.at += 1
            return f"costs nothing in {key}"
        if isinstance(answer, Reserved):
            self._guarded(write.ledger, answer.ledger, key)
            self._looked(write)
            write.ledger = answer.ledger
            if not self._send(write):
                return ""
            self.tried[key] = None
            self.phase = Phase.WAIT
            return f"sends its promise to {key}, on version {write.version}"
        if answer.prerequisite is Prerequisite.ACTIVATE:
            self.phase = Phase.BACK
            return f"finds {key} closed"
        if self.replica.label_revision == self.label_revision:
            return ""
        self._begin()
        return f"begins again with newer namespaces ({answer.prerequisite})"

    def _guarded(self, before: Ledger, after: Ledger, key: Key) -> None:
        """Look at what is about to be written, by plain arithmetic."""
        bounds, wanted = self.policy.bounds(key), self._wanted(key)
        for name, amount in wanted.requested.items():
            was, will = before.compute_charged().get(name, 0), after.compute_charged().get(name, 0)
            if amount > wanted.current.get(name, 0) and will > was:
                if will > min(bounds[name], before.hard.get(name, will)):
                    raise ViolationError(f"over: {key} would promise {will} {name}, above the smaller of both bounds")
                if name not in before.resources:
                    raise ViolationError(f"uncounted: {key} would promise {name} without counting who holds it")

    def _looked(self, write: Write) -> None:
        """Look that nobody was overlooked who had been let in before the cap came into force here."""
        cluster, key = self.cluster, write.key
        for uid, pod in cluster.pods.items():
            held = size_under(cluster.scenario, cluster.labels, key, pod)
            if held > write.counted.get(uid, Amounts()).get(X, 0) and pod.revision <= self.replica.loaded.get(
                key.cap, 0
            ):
                row = write.ledger.reservations.get(uid)
                if row is None and not cluster.scenario.moves:
                    raise ViolationError(f"unseen: {key} promises room that {uid} had before the cap came into force")

    def _wait(self, *, asks: bool) -> str:
        key = self.keys[self.at]
        if self.answered is None and not asks:
            return ""
        won = self.answered
        if won is None:
            ledger = self.cluster.books[key].ledger
            won = ledger is not None and self.rules.landed(ledger, self.request.uid, self.by)
        self.answered = None
        self._waits = None
        if won:
            self.confirmed[key] = None
            self.at += 1
        self.phase = Phase.RESERVE
        return f"{'has its promise' if won else 'did not get through'} in {key}"

    def _take_back(self, *, asks: bool) -> str:
        if not self.tried:
            self.phase = Phase.OVER
            return "is done"
        key = next(iter(self.tried))
        if self._waits is not None and self.answered is None and not asks:
            return ""
        done = self._waits is not None and self.answered is not False and self._withdraws
        self.answered, self._waits = None, None
        book = self.cluster.books[key]
        after = book.ledger and self.rules.withdraw(book.ledger, self.request.uid, self.by)
        if done or after is None or after is book.ledger:
            del self.tried[key]
            self._withdraws = False
            return f"leaves {key}"
        self._withdraws = True
        self._send(Write(key, after, book.counted, book.version, f"withdraw {self.request.uid}"))
        return f"takes its promise back from {key}"

    _waits: Write | None = None
    _withdraws: bool = False

    def _send(self, write: Write) -> bool:
        self._waits = write

        def answer(won: bool) -> None:  # noqa: FBT001  # the answer is nothing but this
            if self._waits is write:
                self.answered = won

        write.answer = answer
        return self.send(write)

    def _wanted(self, key: Key) -> ReservationRequest:
        request, scenario = self.request, self.cluster.scenario
        old, new = request.held(self.cluster, key)
        return ReservationRequest(
            request.uid,
            str(request.namespace),
            request.name,
            amounts(old, self.policy.names),
            amounts(new, self.policy.names),
            self.by,
            request.kind,
            self.policy.bounds(key),
            namespaces_revision=self.label_revision,
            namespaces_hash=members(scenario, self.labels, key),
            is_shared=self.cluster.cap(key).shared,
            min_pods_revision=self.replica.loaded.get(key.cap, 0),
        )
