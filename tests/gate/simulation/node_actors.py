"""Nodes that come, go and reboot, and the replicas that see them late and record what they have seen."""

from collections.abc import Mapping

from tests.gate.simulation.environment import Environment, StepFunction
from tests.gate.simulation.percent_policies import MAX_NODES, MAX_SIZE
from tests.gate.simulation.percent_replica import PercentReplica


class Nodes:
    """The nodes of the cluster, and the steps of replicas that concern them."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._truth = environment.truth
        self._rebooting: dict[str, int] = {}
        self.steps: Mapping[str, StepFunction] = {
            "change_nodes": self._change,
            "reboot": self._reboot,
            "boot": self._boot,
            "watch_nodes": self._watch,
            "measure": self._measure,
            "record_nodes": self._record,
        }

    def _change(self, a: int, b: int) -> str:
        """Add a node, or remove one for good, or change its GPUs."""
        names = [f"n{number}" for number in range(1, MAX_NODES + 1)]
        free = [name for name in names if name not in self._truth.nodes[-1] and name not in self._rebooting]
        if free and b % 3 == 0:
            return self._put(free[a % len(free)], 1 + (b >> 2) % MAX_SIZE)
        if b % 3 == 1:
            return self._remove(a)
        return self._put(self._pick(a), 1 + (b >> 2) % MAX_SIZE) if self._truth.nodes[-1] else ""

    def _put(self, name: str, gpus: int) -> str:
        self._truth.nodes.append({**self._truth.nodes[-1], name: gpus})
        return f"node {name} has {gpus} GPUs"

    def _remove(self, a: int) -> str:
        if not self._truth.nodes[-1]:
            return ""
        name = self._pick(a)
        self._truth.nodes.append({each: gpus for each, gpus in self._truth.nodes[-1].items() if each != name})
        return f"node {name} goes"

    def _pick(self, a: int) -> str:
        names = sorted(self._truth.nodes[-1])
        return names[a % len(names)]

    def _reboot(self, a: int, _b: int) -> str:
        if not self._truth.nodes[-1]:
            return ""
        name = self._pick(a)
        self._rebooting[name] = self._truth.nodes[-1][name]
        self._remove(a)
        return f"node {name} reboots"

    def _boot(self, _a: int, _b: int) -> str:
        if not self._rebooting:
            return ""
        name = next(iter(self._rebooting))
        self._put(name, self._rebooting.pop(name))
        return f"node {name} is back"

    def _find_replica(self, number: int) -> PercentReplica | None:
        replica = self._environment.find_running(number)
        return replica if isinstance(replica, PercentReplica) else None

    def _watch(self, a: int, _b: int) -> str:
        replica = self._find_replica(a)
        return f"replica {replica.number} sees nodes" if replica is not None and replica.watch_nodes() else ""

    def _measure(self, a: int, _b: int) -> str:
        replica = self._find_replica(a)
        if replica is None:
            return ""
        replica.measure()
        return f"replica {replica.number} measures nodes"

    def _record(self, a: int, _b: int) -> str:
        """Let a replica that leads record what it has seen."""
        replica = self._find_replica(a)
        if replica is None or not replica.leads or not replica.record_capacities():
            return ""
        return f"replica {replica.number} records nodes"
