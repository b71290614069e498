"""The steps of the registration: it is written, seen and read, and the leader records what every replica lists."""

from collections.abc import Mapping
from contextlib import suppress

from tallygate.state.ports import RetryLaterError, StoreUnavailableError
from tests.gate.simulation.environment import Environment, StepFunction
from tests.gate.simulation.registrations import RegisteredReplica
from tests.gate.simulation.replica import BOUND


class Registrations:
    """The replicas that lead write the registration; API servers and replicas see it later."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._truth = environment.truth
        self._registration = environment.registration
        self.steps: Mapping[str, StepFunction] = {
            "register": self._register,
            "read_registration": self._read,
            "prepare": self._prepare,
            "record_listed": self._record,
        }

    def _find_running(self, number: int) -> RegisteredReplica | None:
        replica = self._environment.find_running(number)
        return replica if isinstance(replica, RegisteredReplica) else None

    def _register(self, a: int, _b: int) -> str:
        """Let a replica that leads write what its policies and the record need."""
        replica = self._find_running(a)
        if replica is None or not replica.leads or self._truth.is_stalled:
            return ""
        if not self._registration.write(replica.list_wanted(), self._truth.now):
            return ""
        return f"replica {replica.number} writes the registration of {self._describe()}"

    def _read(self, a: int, _b: int) -> str:
        replica = self._find_running(a)
        if replica is None:
            return ""
        replica.read_registration()
        return f"replica {replica.number} reads the registration of {self._describe()}"

    def _prepare(self, a: int, _b: int) -> str:
        """Let a replica that leads count the ledgers of restored caps first."""
        replica = self._find_running(a)
        if replica is None or not replica.leads:
            return ""

        def prepare() -> None:
            with suppress(RetryLaterError, StoreUnavailableError):
                replica.prepare()

        self._environment.start_task(replica, prepare)
        return f"replica {replica.number} looks for active ledgers of caps that are not recorded"

    def _record(self, a: int, _b: int) -> str:
        """Let the leader record what every replica has listed for the bound, after it has read the registration.

        No ledger of it is active then. The leader forgets what no replica has.
        """
        truth, replicas, leader = self._truth, self._environment.replicas, self._find_running(a)
        if truth.is_stalled or truth.waiting or leader is None or not leader.leads:
            return ""
        leader.read_registration()
        listed = [each.list_listed() for each in replicas if isinstance(each, RegisteredReplica)]
        everywhere = set.intersection(*(set(each) for each in listed))
        truth.loaded_at = {cap: max(each[cap] for each in listed) for cap in everywhere}
        due = {cap for cap, since in truth.loaded_at.items() if truth.now >= since + BOUND} - truth.recorded
        due &= leader.prepared
        kept = {cap.key for each in replicas for cap in each.policy.caps.list_caps()}
        unused = truth.recorded - kept
        truth.recorded = (truth.recorded | due) - unused
        self._registration.binding.update(due)
        self._environment.invariants.end_excuses(due)
        for each in replicas:
            if isinstance(each, RegisteredReplica):
                each.forget(due | unused)
        for cap in due:
            truth.enforced.setdefault(cap, truth.now)
        for cap in unused:
            truth.enforced.pop(cap, None)
        if due:
            return f"the leader records {', '.join(sorted(due))}"
        return f"the record loses {', '.join(sorted(unused))}" if unused else ""

    def _describe(self) -> str:
        return ", ".join(sorted(self._registration.covered)) or "nothing"
