"""The background work of replicas: watch, recount, expire, apply limits, load policies, crash and freeze."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tallygate.webhook.state.ledger.expire import NotDue
from tallygate.webhook.state.ledger.recount import StaleSnapshot
from tests.state.simulation.ground_truth import GroundTruth, Key, Write, amounts
from tests.state.simulation.handlers import Handler
from tests.state.simulation.policies import Policy
from tests.state.simulation.replica import Replica
from tests.state.simulation.rules import Rules
from tests.state.simulation.scenario import SET_SKEWS, X

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
        snapshot = replica.take_snapshot(key, self.policies[replica.policy].resources | stored.ledger.resources)
        after = self.rules.recount(stored.ledger, snapshot)
        if isinstance(after, StaleSnapshot) or after == stored.ledger:
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
            return self._activate(replica, key)
        if replica.live_reads.get(key):
            return self._expire_read(replica, key, recounts=(c >> 2) % 2 == 0)
        return f"replica {replica.number} reads old pods of {key}" if replica.read_pods(key) else ""

    def _activate(self, replica: Replica, key: Key) -> str:
        stored = self.truth.ledgers[key]
        assert stored.ledger is not None
        snapshot = replica.take_snapshot(key, self.policies[replica.policy].resources | stored.ledger.resources)
        after = self.rules.activate(stored.ledger, replica.find_ages(key), snapshot, replica.listed_at)
        if isinstance(after, StaleSnapshot | NotDue):
            return ""
        used_by_pod = self.rules.split_used({}, after, snapshot)
        return self._send(replica, Write(key, after, used_by_pod, stored.version, "the activation"))

    def _expire_read(self, replica: Replica, key: Key, *, recounts: bool) -> str:
        stored = self.truth.ledgers[key]
        ledger, used_by_pod = stored.ledger, stored.used_by_pod
        assert ledger is not None
        before = len(ledger.reservations)
        if recounts:
            snapshot = replica.take_snapshot(key, self.policies[replica.policy].resources | ledger.resources)
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
        after = self.rules.apply_limits(stored.ledger, hard, policy.resources, surge)
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
        return f"replica {replica.number} loads policy {replica.policy}"

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
