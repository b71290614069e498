"""What must hold once things are quiet: no room is lost.

Requests end, one replica goes on, the others are frozen for good. Within the in-flight bound from then on, and a few
writes of one observer, every ledger must say exactly what pods hold; what a deletion frees is free after one recount.
"""

from dataclasses import replace

from tests.state.simulation.cluster import Key, is_under, size_under
from tests.state.simulation.handling import State
from tests.state.simulation.observing import Replica
from tests.state.simulation.scenario import B, X, Y
from tests.state.simulation.violation import ViolationError
from tests.state.simulation.world import World
from webhook.state.ledger.ledger import Ledger, Operation

_UNITS = {X: 1, Y: 2}


class Quiet:
    """The end of a world. `choice` decides what becomes of what is under way, and who goes on."""

    def __init__(self, world: World, choice: int) -> None:
        self._world = world
        self._choice = choice
        self._replica: Replica = world.replicas[choice % len(world.replicas)]

    def check(self) -> None:
        """Let things come to rest, and look.

        Raises:
            ViolationError: room is lost, or an invariant breaks on the way.
        """
        self._end_requests()
        self._settle()
        self._say_settled()
        for _ in range(B):
            self._do("tick")
        self._settle()
        for key in self._world.cluster.ledgers():
            self._finish(key)
        self._say_exactly("after the bound")
        if self._world.cluster.pods:
            self._do("delete", self._choice)
            self._settle()
            self._say_exactly("after a deletion and one recount")

    def _end_requests(self) -> None:
        """What is under way lands or is lost; what was allowed is stored or not; attempts go no further."""
        world, bits = self._world, self._choice
        while world.writes:
            self._do("lose" if bits & 1 else "land")
            bits >>= 1
        self._drain()
        for _ in range(len(world.requests)):
            if bits & 1 and any(each.state is State.ALLOWED for each in world.requests):
                self._do("store")
            bits >>= 1
        world.handlers.clear()
        for replica in world.replicas:
            replica.frozen = replica is not self._replica
        world.policies.append(replace(world.policies[-1], caps=frozenset(range(len(world.scenario.caps)))))
        self._replica.load(len(world.policies) - 1, world.policies[-1].caps)

    def _drain(self) -> None:
        while self._world.cluster.stalled or self._world.cluster.waiting:
            self._do("commit")

    def _settle(self) -> None:
        """The observer sees everything, leads, and counts."""
        self._replica.catch_up()
        for number, key in enumerate(self._world.cluster.ledgers()):
            if self._world.cluster.books[key].ledger is None:
                self._make(key)
            self._do("lead", self._replica.number, number)
            self._land()
            self._do("count", self._replica.number, number)
            self._land()
            self._replica.observe(key)

    def _make(self, key: Key) -> None:
        world = self._world
        book = world.cluster.books[key]
        ledger = world.rules.made(world.policies[-1].bounds(key), "quiet")
        world.cluster.books[key] = book._replace(ledger=ledger, version=world.cluster.revision)

    def _finish(self, key: Key) -> None:
        """Mark, read, expire: as often as it takes to see that nothing happens any more, which is thrice."""
        number = self._world.cluster.ledgers().index(key)
        for _ in range(3):
            self._do("tend", self._replica.number, number, 1)
            self._land()
            if self._ledger(key).initializer:
                self._do("relist", self._replica.number)
                self._replica.catch_up()
            self._do("tend", self._replica.number, number, 0)
            self._land()

    def _say_settled(self) -> None:
        """One recount settles every creation that is there."""
        world = self._world
        for key in world.cluster.ledgers():
            for uid, row in self._ledger(key).reservations.items():
                pod = world.cluster.pods.get(uid)
                there = pod is not None and is_under(world.scenario, world.cluster.labels, key, pod)
                if there and row.operation is Operation.CREATE:
                    raise ViolationError(f"lost room: after a recount {key} still promises {uid}, which is there")

    def _say_exactly(self, when: str) -> None:
        cluster = self._world.cluster
        for key in cluster.ledgers():
            held = sum(size_under(cluster.scenario, cluster.labels, key, pod) for pod in cluster.pods.values())
            ledger = self._ledger(key)
            charged = ledger.compute_charged()
            for name in ledger.resources:
                if ledger.initializer or charged.get(name, 0) != held * _UNITS[name]:
                    raise ViolationError(
                        f"lost room: {when} {key} charges {charged.get(name, 0)} {name}, and pods hold "
                        f"{held * _UNITS[name]}{' (closed)' if ledger.initializer else ''}"
                    )

    def _ledger(self, key: Key) -> Ledger:
        ledger = self._world.cluster.books[key].ledger
        assert ledger is not None
        return ledger

    def _land(self) -> None:
        while self._world.writes:
            self._do("land", 0, 2)

    def _do(self, op: str, a: int = 0, b: int = 0, c: int = 0) -> None:
        told = self._world.step((op, a, b, c))
        if told:
            self._world.told.append(f"quiet: {told}")
