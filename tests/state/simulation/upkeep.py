"""What replicas do of their own: watch, recount, tend old promises, lead, crash and freeze."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.state.simulation.cluster import Cluster, Key, Write, amounts
from tests.state.simulation.handling import Handler, Policy
from tests.state.simulation.observing import Replica
from tests.state.simulation.rules import Rules
from tests.state.simulation.scenario import X
from webhook.state.ledger.expire import NotDue
from webhook.state.ledger.recount import StaleSnapshot


@dataclass
class Upkeep:
    """The replicas' own steps; each is chosen, and acts, by its numbers, as every step of the world."""

    cluster: Cluster
    rules: Rules
    replicas: Sequence[Replica]
    policies: Sequence[Policy]
    handlers: list[Handler]
    send: Callable[[Write], bool]

    def watch(self, a: int, b: int, _c: int) -> str:
        """Its watch of pods shows it some more."""
        replica = self._awake(a)
        if replica is None or not replica.watch(1 + b % 3):
            return ""
        return f"replica {replica.number} sees pods up to revision {replica.revision}"

    def watch_namespaces(self, a: int, _b: int, _c: int) -> str:
        """Its watch of namespaces shows it some more."""
        replica = self._awake(a)
        if replica is None or not replica.watch_labels(1):
            return ""
        return f"replica {replica.number} sees namespaces up to revision {replica.label_revision}"

    def relist(self, a: int, _b: int, _c: int) -> str:
        """Its watch of pods breaks off, and it lists anew."""
        replica = self._awake(a)
        if replica is None:
            return ""
        replica.relist()
        return f"replica {replica.number} lists pods anew (revision {replica.revision})"

    def count(self, a: int, b: int, _c: int) -> str:
        """A recount of its own."""
        replica, key = self._keeper(a, b)
        book = self.cluster.books[key]
        if replica is None or book.ledger is None:
            return ""
        view = replica.view(key, self.policies[replica.policy].names | book.ledger.resources)
        after = self.rules.recount(book.ledger, view)
        if isinstance(after, StaleSnapshot) or after == book.ledger:
            return ""
        write = Write(key, after, self.rules.tallied(book.counted, after, view), book.version, "recount")
        write.counts = True
        return self._of_its_own(replica, write)

    def tend(self, a: int, b: int, c: int) -> str:
        """Whatever an observer has to do about old promises next."""
        replica, key = self._keeper(a, b)
        book = self.cluster.books[key]
        if replica is None or book.ledger is None:
            return ""
        before = replica.ages(key).by_attempt
        looked = f"replica {replica.number} looks at {key}" if replica.observe(key).by_attempt != before else ""
        return self._tended(replica, key, c) or looked

    def _tended(self, replica: Replica, key: Key, c: int) -> str:
        book, ages = self.cluster.books[key], replica.ages(key)
        assert book.ledger is not None
        if c % 4 and ages.needs_write(replica.clock()):
            return self._of_its_own(replica, Write(key, book.ledger, book.counted, book.version, "mark"))
        if book.ledger.initializer:
            return self._reopen(replica, key)
        if replica.readings.get(key):
            return self._expire(replica, key, counts=(c >> 2) % 2 == 0)
        return f"replica {replica.number} reads old pods of {key}" if replica.read(key) else ""

    def _reopen(self, replica: Replica, key: Key) -> str:
        book = self.cluster.books[key]
        assert book.ledger is not None
        view = replica.view(key, self.policies[replica.policy].names | book.ledger.resources)
        after = self.rules.reopen(book.ledger, replica.ages(key), view, replica.listed)
        if isinstance(after, StaleSnapshot | NotDue):
            return ""
        counted = self.rules.tallied({}, after, view)
        return self._of_its_own(replica, Write(key, after, counted, book.version, "reopen"))

    def _expire(self, replica: Replica, key: Key, *, counts: bool) -> str:
        book = self.cluster.books[key]
        ledger, counted = book.ledger, book.counted
        assert ledger is not None
        if counts:
            view = replica.view(key, self.policies[replica.policy].names | ledger.resources)
            after = self.rules.recount(ledger, view)
            if not isinstance(after, StaleSnapshot):
                ledger, counted = after, self.rules.tallied(counted, after, view)
        for reading in replica.readings.pop(key):
            ledger = self.rules.expire(ledger, replica.ages(key), reading)
        if len(ledger.reservations) == len(book.ledger.reservations if book.ledger else ()):
            return ""
        return self._of_its_own(replica, Write(key, ledger, counted, book.version, "expire"))

    def lead(self, a: int, b: int, _c: int) -> str:
        """Who takes itself for the leader writes the bounds; two may."""
        replica, key = self._keeper(a % 2, b)
        book = self.cluster.books[key]
        if replica is None or book.ledger is None:
            return ""
        policy = self.policies[replica.policy]
        after = self.rules.govern(book.ledger, policy.bounds(key), policy.names)
        if after == book.ledger:
            return ""
        counted = (
            {uid: amounts(held[X], after.resources) for uid, held in book.counted.items()} if after.resources else {}
        )
        return self._of_its_own(replica, Write(key, after, counted, book.version, "govern"))

    def _of_its_own(self, replica: Replica, write: Write) -> str:
        begun, incarnation = replica.clock(), replica.incarnation

        def answer(won: bool) -> None:  # noqa: FBT001  # the answer is nothing but this
            if won and replica.incarnation == incarnation:
                replica.committed(write.key, begun)

        write.answer = answer
        if not self.send(write):
            return ""
        return f"replica {replica.number} sends {write.what} for {write.key}, on version {write.version}"

    def crash(self, a: int, b: int, _c: int) -> str:
        """It is gone, and another begins in its place; nobody answers for its attempts."""
        replica = self.replicas[a % len(self.replicas)]
        for handler in [each for each in self.handlers if each.replica is replica]:
            self.handlers.remove(handler)
            if handler.request.handler is handler:
                handler.request.handler = None
        replica.start(b % 4)
        return f"replica {replica.number} crashes, and lists pods at revision {replica.revision}"

    def freeze(self, a: int, _b: int, _c: int) -> str:
        """It does nothing any more, while its clock goes on."""
        replica = self._awake(a)
        if replica is None:
            return ""
        replica.frozen = True
        return f"replica {replica.number} freezes"

    def thaw(self, a: int, _b: int, _c: int) -> str:
        """It goes on as if nothing had been."""
        replica = self.replicas[a % len(self.replicas)]
        if not replica.frozen:
            return ""
        replica.frozen = False
        return f"replica {replica.number} goes on"

    def load(self, a: int, _b: int, _c: int) -> str:
        """It reads the newest policy."""
        replica = self._awake(a)
        if replica is None or replica.policy == len(self.policies) - 1:
            return ""
        replica.load(len(self.policies) - 1, self.policies[-1].caps)
        return f"replica {replica.number} loads policy {replica.policy}"

    def _keeper(self, replica: int, key: int) -> tuple[Replica | None, Key]:
        """Who keeps a ledger: nobody for whom its cap is not in force."""
        found, of = self._awake(replica), self.cluster.key(key)
        return (found if found and of.cap in found.loaded else None), of

    def _awake(self, number: int) -> Replica | None:
        replica = self.replicas[number % len(self.replicas)]
        return None if replica.frozen else replica
