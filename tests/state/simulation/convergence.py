"""Convergence: the end of a schedule, after which every ledger must be exact.

Requests end, one replica goes on, the others stay frozen. After the in-flight bound and a few writes of that replica
the charged amounts of every ledger must equal the used ones; a recount must free the amounts of a deleted pod.
"""

from dataclasses import replace

from tallygate.state.ledger.ledger import Ledger, Operation
from tests.schedules import ViolationError
from tests.state.simulation.api_requests import RequestState
from tests.state.simulation.class_rules import MAPPED
from tests.state.simulation.ground_truth import Key, is_under
from tests.state.simulation.replica import Replica
from tests.state.simulation.rollout_ends import RolloutEnds
from tests.state.simulation.scenario import UNITS, B
from tests.state.simulation.surge_invariants import exceeds_limit
from tests.state.simulation.world import World

_EXPIRY_ROUNDS = 3
"""Write, read and expire: a third round finds nothing to do."""


class Convergence:
    """The end of a world. `choice` decides about the writes and requests in flight, and picks the replica."""

    def __init__(self, world: World, choice: int) -> None:
        self._world = world
        self._truth = world.truth
        self._choice = choice
        self._replica: Replica = world.replicas[choice % len(world.replicas)]

    def check(self) -> None:
        """Let the world converge.

        Raises:
            ViolationError: if a ledger charges more than is used, a rollout sticks, or an invariant does not hold.
        """
        self._end_requests()
        self._recount_all()
        self._check_creations()
        for _ in range(B):
            self._step("tick")
        self._recount_all()
        for number, key in enumerate(list(self._truth.ledgers)):
            self._expire(number, key)
        if self._world.scenario.has_classes:
            self._recount_all()  # a mapping ends once no reservation counts by it
        self._check_exact("after the bound")
        if self._truth.pods:
            self._step("delete", self._choice)
            self._recount_all()
            self._check_exact("after a deletion and one recount")
        if self._truth.claims:
            self._step("delete_claim", self._choice)
            self._recount_all()
            self._check_exact("after the deletion of a claim and one recount")
        RolloutEnds(self._world, self._replica, self._step, self._store_writes, self._recount_all).check()
        self._check_exact("after the ends of rollouts")

    def _end_requests(self) -> None:
        """Store or lose the writes and the allowed requests, end all handlers, freeze the other replicas."""
        world, bits = self._world, self._choice
        while world.etcd.writes:
            self._step("lose" if bits & 1 else "arrive")
            bits >>= 1
        while self._truth.is_stalled or self._truth.waiting:
            self._step("commit")
        for _ in range(len(world.requests)):
            if bits & 1 and any(each.state is RequestState.ALLOWED for each in world.requests):
                self._step("store")
            bits >>= 1
        world.handlers.clear()
        world.claim_steps.finish()
        for replica in world.replicas:
            replica.is_frozen = replica is not self._replica
        world.policies.append(replace(world.policies[-1], caps=frozenset(range(len(world.scenario.caps)))))
        self._replica.load(len(world.policies) - 1, world.policies[-1].caps)
        for cap in self._replica.loaded:
            self._truth.recorded.add(cap)
            if world.scenario.are_caps_new:
                self._truth.loaded_at.setdefault(cap, self._truth.now)

    def _recount_all(self) -> None:
        """Let the replica see every event, apply the limits, and recount every ledger."""
        self._replica.catch_up()
        for number, key in enumerate(list(self._truth.ledgers)):
            if self._truth.ledgers[key].ledger is None:
                self._initialize(key)
            self._step("lead", self._replica.number, number)
            self._store_writes()
            self._step("recount", self._replica.number, number)
            self._store_writes()
            self._replica.observe(key)

    def _initialize(self, key: Key) -> None:
        world = self._world
        policy = world.policies[-1]
        hard, surge = self._replica.list_limits(policy, key), policy.list_surge(key)
        ledger = world.rules.initialize(hard, "convergence", surge)
        stored = self._truth.ledgers[key]
        self._truth.ledgers[key] = stored._replace(ledger=ledger, version=self._truth.revision)

    def _expire(self, number: int, key: Key) -> None:
        for _ in range(_EXPIRY_ROUNDS):
            self._step("expire", self._replica.number, number, 1)
            self._store_writes()
            if self._find_ledger(key).initializer or self._find_ledger(key).remapping.names:
                self._step("relist", self._replica.number)
                self._replica.catch_up()
                self._step("recount", self._replica.number, number)
                self._store_writes()
            self._step("expire", self._replica.number, number, 0)
            self._store_writes()

    def _check_creations(self) -> None:
        """Check that one recount has removed the reservation of every created pod that is stored."""
        truth = self._truth
        for key in truth.ledgers:
            for uid, reservation in self._find_ledger(key).reservations.items():
                pod = truth.pods.get(uid) or truth.claims.get(uid)
                is_stored = pod is not None and is_under(truth.scenario, truth.labels, key, pod)
                if is_stored and reservation.operation is Operation.CREATE:
                    raise ViolationError(f"not freed: after a recount {key} still reserves for {uid}, which is stored")

    def _check_exact(self, moment: str) -> None:
        truth = self._truth
        for key in truth.ledgers:
            units = sum(truth.size_under(key, pod) for pod in truth.pods.values())
            units += sum(truth.count_under(key, claim) for claim in truth.claims.values())
            ledger = self._find_ledger(key)
            charged = ledger.compute_charged()
            if ledger.unconfirmed:
                raise ViolationError(f"not freed: {moment} {key} takes {ledger.unconfirmed} for counted twice")
            if ledger.surge.since is not None and not exceeds_limit(ledger):
                raise ViolationError(f"kept: {moment} {key} has a surge since {ledger.surge.since}")
            self._check_mappings(key, ledger, moment)
            for name in ledger.resources & UNITS.keys():
                if ledger.initializer or charged.get(name, 0) != units * UNITS[name]:
                    raise ViolationError(
                        f"not freed: {moment} {key} charges {charged.get(name, 0)} {name}, and pods use "
                        f"{units * UNITS[name]}{' (initializing)' if ledger.initializer else ''}"
                    )

    def _check_mappings(self, key: Key, ledger: Ledger, moment: str) -> None:
        """Check that a ledger counts by no mapping that nothing needs, and decides no allocation that has room."""
        truth = self._truth
        if not truth.scenario.has_classes:
            return
        is_needed = truth.class_states[-1] == MAPPED or any(
            truth.count_under(key, each) for each in truth.claims.values()
        )
        if ledger.mappings and not is_needed:
            raise ViolationError(f"not freed: {moment} {key} counts by a mapping that no claim needs")
        if ledger.remapping.names and not ledger.compute_charged().find_excess(ledger.hard):
            raise ViolationError(f"not freed: {moment} {key} decides on allocations that have room")

    def _find_ledger(self, key: Key) -> Ledger:
        ledger = self._truth.ledgers[key].ledger
        assert ledger is not None
        return ledger

    def _store_writes(self) -> None:
        while self._world.etcd.writes:
            self._step("arrive", 0, 2)

    def _step(self, op: str, a: int = 0, b: int = 0, c: int = 0) -> str:
        line = self._world.step((op, a, b, c))
        if line:
            self._world.story[-1] = f"convergence: {line}"
        return line
