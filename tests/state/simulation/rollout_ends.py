"""The end of every rollout, once all else has ended: none may stay stuck that has room by its limits (rule 12)."""

from collections.abc import Callable
from dataclasses import dataclass

from tests.schedules import ViolationError
from tests.state.simulation.ground_truth import Key, list_keys
from tests.state.simulation.replica import Replica
from tests.state.simulation.scenario import X
from tests.state.simulation.surge_steps import Workload
from tests.state.simulation.world import World

_MAX_STEPS = 60
"""More than the steps of one attempt under every cap, and of a second one."""


@dataclass
class RolloutEnds:
    """The controllers of a world in which nothing else happens.

    `step` takes a step of the world, `settle` stores all writes in flight, `recount` lets the replica see and recount
    everything.
    """

    world: World
    replica: Replica
    step: Callable[..., str]
    settle: Callable[[], None]
    recount: Callable[[], None]

    def check(self) -> None:
        """Let every controller end its rollout.

        Raises:
            ViolationError: if one cannot, although it has room.
        """
        for request in list(self.world.requests):  # they have timed out: the next step with one of them closes it
            self.step("call", request.token)
            self.step("store", request.token)
        for workload in self.world.surge_steps.workloads:
            if self._has_room(workload):
                self._end(workload)

    def _has_room(self, workload: Workload) -> bool:
        """Return whether all pods of a workload, and one more by the surge, have room beside those of others."""
        truth, steps = self.world.truth, self.world.surge_steps
        own = steps.list_pods(workload)
        if any(pod.size != workload.size or not pod.classed for pod in own) or len(own) > workload.count:
            return False
        policy = self.world.policies[self.replica.policy]
        for key in list_keys(truth.scenario, truth.labels, workload.namespace):
            if truth.cap(key).by_allocation:
                continue
            if not policy.surges[key.cap]:
                return False
            others = sum(truth.size_under(key, pod) for pod in truth.pods.values() if pod not in own)
            others += sum(truth.count_under(key, claim) for claim in truth.claims.values())
            needed = others + workload.count * workload.size
            limit, most = self._find_limits(key)
            if needed > limit or needed + workload.size > most:
                return False
        return True

    def _find_limits(self, key: Key) -> tuple[int, int]:
        """Return the smaller limit of the policy and of the ledger, and the smaller sum of limit and surge."""
        policy, ledger = self.world.policies[self.replica.policy], self.world.truth.ledgers[key].ledger
        assert ledger is not None
        own, stored = self.replica.list_limits(policy, key)[X], ledger.hard[X]
        own_most, stored_most = own + policy.surges[key.cap], stored + ledger.surge.amounts.get(X, 0)
        return min(own, stored), min(own_most, stored_most)

    def _end(self, workload: Workload) -> None:
        steps = self.world.surge_steps
        for _ in range(2 * workload.count + 1):
            if not steps.list_old(workload):
                return
            if len(steps.list_pods(workload)) > workload.count:
                self.step("retire", workload.token)
            else:
                self._create_pod(workload)
            self.recount()
        raise ViolationError(f"stuck: {workload.uid} cannot end its rollout to revision {workload.number}")

    def _create_pod(self, workload: Workload) -> None:
        self.step("make", workload.token)
        self.step("call", 0, self.replica.number)
        for _ in range(_MAX_STEPS):
            if not self.world.handlers:
                break
            self.step("proceed", 0, 1, 1)
            self.settle()
        self.step("store")
