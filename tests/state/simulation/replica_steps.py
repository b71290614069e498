"""The background work of replicas: watch, recount, expire, apply limits, load policies, crash and freeze."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tallygate.state.ledger.expire import NotDue
from tallygate.state.ledger.recount import StaleSnapshot
from tests.state.simulation.class_rules import ELSEWHERE, MAPPED, MISSING, list_sources
from tests.state.simulation.ground_truth import GroundTruth, Key, Write, amounts
from tests.state.simulation.handlers import Handler
from tests.state.simulation.policies import Policy
from tests.state.simulation.replica import Replica
from tests.state.simulation.rules import Rules
from tests.state.simulation.scenario import SET_SKEWS, B, X

_NEXT_STATES: Mapping[str, tuple[str, ...]] = {
    MAPPED: (MISSING, ELSEWHERE),
    ELSEWHERE: (MAPPED, MAPPED, MISSING),
    MISSING: (MAPPED, MAPPED, ELSEWHERE),
}
"""The states that may follow a state of the class."""

StepFunction = Callable[[int, int, int], str]
"""Take one step, which chooses by its numbers; return a line of the story, or none if nothing could be done."""


@dataclass
class ReplicaSteps:
    """The steps of replicas; most choose the replica by the first number and the ledger by the second."""

    truth: GroundTruth
    rules: Rules
    replicas: Sequence[Replica]
    policies: Sequence[Policy]
    handlers: list[Handler]
    send: Callable[[Write], bool]

    def list_steps(self) -> Mapping[str, StepFunction]:
        """Return each step by the name of its operation."""
        return {
            "watch": self._watch,
            "watch_namespaces": self._watch_namespaces,
            "watch_claims": self._watch_claims,
            "relist": self._relist,
            "recount": self._recount,
            "expire": self._expire,
            "lead": self._lead,
            "load": self._load,
            "set_clock": self._set_clock,
            "crash": self._crash,
            "freeze": self._freeze,
            "thaw": self._thaw,
            "change_class": self._change_class,
            "watch_class": self._watch_class,
            "record": self._record,
        }

    def _watch(self, a: int, b: int, _c: int) -> str:
        replica = self._find_running(a)
        if replica is None or not replica.watch(1 + b % 3):
            return ""
        return f"replica {replica.number} sees pods up to revision {replica.pods_revision}"

    def _watch_claims(self, a: int, b: int, _c: int) -> str:
        replica = self._find_running(a)
        if replica is None or not replica.watch_claims(1 + b % 3):
            return ""
        return f"replica {replica.number} sees claims up to revision {replica.claims_revision}"

    def _watch_namespaces(self, a: int, _b: int, _c: int) -> str:
        replica = self._find_running(a)
        if replica is None or not replica.watch_namespaces(1):
            return ""
        return f"replica {replica.number} sees namespaces up to revision {replica.labels_revision}"

    def _relist(self, a: int, b: int, _c: int) -> str:
        replica = self._find_running(a)
        if replica is None:
            return ""
        replica.relist()
        if b % 2 == 0:
            replica.relist_claims()
        return f"replica {replica.number} lists pods again (revision {replica.pods_revision})"

    def _recount(self, a: int, b: int, _c: int) -> str:
        replica, key = self._find_reconciler(a, b)
        stored = self.truth.ledgers[key]
        if replica is None or stored.ledger is None:
            return ""
        policy, ages = self.policies[replica.policy], replica.find_ages(key)
        snapshot = replica.take_snapshot(key, policy, stored.ledger)
        after = self.rules.recount(stored.ledger, snapshot)
        if isinstance(after, StaleSnapshot):
            return ""
        after = self.rules.confirm_mappings(after, ages, replica.listed_at)
        if self.truth.scenario.has_classes and (left := replica.end_mappings(key, after)) != after.mappings:
            resources = policy.resources | list_sources(left)
            after = self.rules.apply_limits(after, after.hard, resources, after.surge.amounts, left)
        if after == stored.ledger:
            return ""
        used_by_pod = self.rules.split_used(stored.used_by_pod, after, snapshot)
        return self._send(replica, Write(key, after, used_by_pod, stored.version, "the recount", is_recount=True))

    def _expire(self, a: int, b: int, c: int) -> str:
        """Do the next work on old reservations: observe, write, read, then expire or activate."""
        replica, key = self._find_reconciler(a, b)
        if replica is None or self.truth.ledgers[key].ledger is None:
            return ""
        before = replica.find_ages(key).by_attempt
        is_observed = replica.observe(key).by_attempt != before
        line = self._expire_observed(replica, key, c)
        return line or (f"replica {replica.number} observes {key}" if is_observed else "")

    def _expire_observed(self, replica: Replica, key: Key, c: int) -> str:
        stored, ages = self.truth.ledgers[key], replica.find_ages(key)
        assert stored.ledger is not None
        if c % 4 and ages.needs_write(replica.clock()):
            write = Write(
                key, stored.ledger, stored.used_by_pod, stored.version, "an unchanged ledger", is_unchanged=True
            )
            return self._send(replica, write)
        if stored.ledger.initializer:
            line = self._activate(replica, key)
            if line or not stored.ledger.activation.is_new:
                return line
        if replica.live_reads.get(key):
            return self._expire_read(replica, key, recounts=(c >> 2) % 2 == 0)
        return f"replica {replica.number} reads old pods of {key}" if replica.read_pods(key) else ""

    def _activate(self, replica: Replica, key: Key) -> str:
        stored = self.truth.ledgers[key]
        assert stored.ledger is not None
        is_recorded, is_new = key.cap in self.truth.recorded, stored.ledger.activation.is_new
        if not self.rules.may_be_active(is_new, is_recorded) or self._may_miss_pods(replica, key):
            return ""
        snapshot = replica.take_snapshot(key, self.policies[replica.policy], stored.ledger)
        after = self.rules.activate(stored.ledger, replica.find_ages(key), snapshot, replica.listed_at)
        if isinstance(after, StaleSnapshot | NotDue):
            return ""
        used_by_pod = self.rules.split_used({}, after, snapshot)
        return self._send(replica, Write(key, after, used_by_pod, stored.version, "the activation"))

    def _may_miss_pods(self, replica: Replica, key: Key) -> bool:
        """Return whether a pod that a replica without the cap accepted may be stored after the last list."""
        loaded_at = self.truth.loaded_at.get(key.cap)
        if loaded_at is None:
            return self.truth.scenario.are_caps_new
        return not self.rules.is_list_complete(replica.listed_at, replica.clock() - self.truth.now + loaded_at)

    def _expire_read(self, replica: Replica, key: Key, *, recounts: bool) -> str:
        stored = self.truth.ledgers[key]
        ledger, used_by_pod = stored.ledger, stored.used_by_pod
        assert ledger is not None
        before = len(ledger.reservations)
        if recounts:
            snapshot = replica.take_snapshot(key, self.policies[replica.policy], ledger)
            after = self.rules.recount(ledger, snapshot)
            if not isinstance(after, StaleSnapshot):
                ledger, used_by_pod = after, self.rules.split_used(used_by_pod, after, snapshot)
        for live_read in replica.live_reads.pop(key):
            ledger = self.rules.expire(ledger, replica.find_ages(key), live_read)
        if len(ledger.reservations) == before:
            return ""
        return self._send(replica, Write(key, ledger, used_by_pod, stored.version, "the expiry"))

    def _lead(self, a: int, b: int, _c: int) -> str:
        """Apply the limits of the policy, as the leader does; two replicas may."""
        replica, key = self._find_reconciler(a % 2, b)
        stored = self.truth.ledgers[key]
        if replica is None or stored.ledger is None:
            return ""
        policy = self.policies[replica.policy]
        hard, surge = replica.list_limits(policy, key), policy.list_surge(key)
        mappings = replica.select_mappings(stored.ledger.mappings)
        resources = policy.resources | list_sources(mappings)
        after = self.rules.apply_limits(stored.ledger, hard, resources, surge, mappings)
        if after == stored.ledger:
            return ""
        pods = stored.used_by_pod.items() if after.resources else ()
        used_by_pod = {uid: amounts(used[X], after.resources) for uid, used in pods}
        write = Write(key, after, used_by_pod, stored.version, "the limits", is_limits=True)
        return self._send(replica, write)

    def _send(self, replica: Replica, write: Write) -> str:
        started_at, incarnation = replica.clock(), replica.incarnation

        def answer(is_stored: bool) -> None:  # noqa: FBT001  # a callback with one argument
            if is_stored and replica.incarnation == incarnation:
                replica.confirm_write(write.key, started_at)

        write.answer = answer
        if not self.send(write):
            return ""
        return f"replica {replica.number} sends {write.name} to {write.key}, on version {write.version}"

    def _crash(self, a: int, b: int, _c: int) -> str:
        """End a replica and start another in its place; its handlers never respond."""
        replica = self.replicas[a % len(self.replicas)]
        for handler in [each for each in self.handlers if each.replica is replica]:
            self.handlers.remove(handler)
            if handler.request.handler is handler:
                handler.request.handler = None
        replica.start(b % 4, (b >> 4) % 4)
        return f"replica {replica.number} crashes, and lists pods at revision {replica.pods_revision}"

    def _freeze(self, a: int, _b: int, _c: int) -> str:
        """Freeze a replica; its clock goes on."""
        replica = self._find_running(a)
        if replica is None:
            return ""
        replica.is_frozen = True
        return f"replica {replica.number} freezes"

    def _thaw(self, a: int, _b: int, _c: int) -> str:
        replica = self.replicas[a % len(self.replicas)]
        if not replica.is_frozen:
            return ""
        replica.is_frozen = False
        return f"replica {replica.number} thaws"

    def _load(self, a: int, _b: int, _c: int) -> str:
        replica = self._find_running(a)
        if replica is None or replica.policy == len(self.policies) - 1:
            return ""
        replica.load(len(self.policies) - 1, self.policies[-1].caps)
        if self.truth.scenario.are_caps_new:
            for cap in frozenset.intersection(*(frozenset(each.loaded) for each in self.replicas)):
                self.truth.loaded_at.setdefault(cap, self.truth.now)
        return f"replica {replica.number} loads policy {replica.policy}"

    def _record(self, a: int, b: int, _c: int) -> str:
        """Record a new cap, as the leader does once every replica has had it for the bound."""
        replica, key = self._find_reconciler(a % 2, b)
        loaded_at = self.truth.loaded_at.get(key.cap)
        if replica is None or key.cap in self.truth.recorded or self.truth.is_stalled or self.truth.waiting:
            return ""
        if loaded_at is None or self.truth.now < loaded_at + B:
            return ""
        self.truth.recorded.add(key.cap)
        self.truth.enforced.add(key.cap)
        return f"replica {replica.number} records cap {key.cap}"

    def _change_class(self, a: int, _b: int, _c: int) -> str:
        """Let an administrator install a driver again, or change its class."""
        if self.truth.is_stalled:
            return ""
        choices = _NEXT_STATES[self.truth.class_states[-1]]
        self.truth.revision += 1
        self.truth.class_states.append(choices[a % len(choices)])
        return f"the class is {self.truth.class_states[-1]} (revision {self.truth.revision})"

    def _watch_class(self, a: int, _b: int, _c: int) -> str:
        replica = self._find_running(a)
        if replica is None or not replica.watch_class():
            return ""
        return f"replica {replica.number} sees that the class is {replica.class_state}"

    def _set_clock(self, a: int, b: int, _c: int) -> str:
        """Set the clock of a replica, ahead or back; a frozen one may wake with it."""
        replica = self.replicas[a % len(self.replicas)]
        replica.skew = SET_SKEWS[b % len(SET_SKEWS)]
        return f"the clock of replica {replica.number} is set to {replica.read_time()}"

    def _find_reconciler(self, replica: int, key: int) -> tuple[Replica | None, Key]:
        """Return a ledger, and the replica unless it is frozen or the ledger's cap is not active in it."""
        found, picked = self._find_running(replica), self.truth.pick_key(key)
        return (found if found and picked.cap in found.loaded else None), picked

    def _find_running(self, number: int) -> Replica | None:
        replica = self.replicas[number % len(self.replicas)]
        return None if replica.is_frozen else replica
