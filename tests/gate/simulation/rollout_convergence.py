"""Convergence of rollouts: once a cap has room for the pods that run at the end, every rollout must end by itself."""

from collections.abc import Callable, Collection

from tallygate.state.ports import LedgerKey
from tests.gate.simulation.attempts import compute_hard
from tests.gate.simulation.cluster_objects import Pod
from tests.gate.simulation.gate_replica import GateReplica
from tests.gate.simulation.replica_actors import ANSWERED
from tests.gate.simulation.rollout_objects import Deployment
from tests.gate.simulation.world import World
from tests.schedules import ViolationError
from tests.state.informers.pods import GPU

_ROUNDS, _FILL_ROUNDS = 40, 4


class RolloutConvergence:
    """The last steps of a world whose replicas are frozen but for this one; `reconcile` reconciles every ledger."""

    def __init__(self, world: World, replica: GateReplica, reconcile: Callable[[], None]) -> None:
        self._world = world
        self._truth = world.truth
        self._objects = world.truth.rollouts
        self._replica = replica
        self._reconcile = reconcile

    def finish(self) -> None:
        """Check the limits of the ledgers, remove what has no room, and let every rollout end, twice.

        The second time every cap is full, by pods of users if the Deployments leave room.

        Raises:
            ViolationError: if a ledger has other limits or a surge without an end, or a rollout does not end.
        """
        self._reconcile()
        self._check_ledgers()
        for name in self._truth.namespaces:
            self._truth.annotate(name, None)
        self._reconcile()
        for key in self._list_keys():
            self._make_room(key)
        self._end_rollouts()
        self._fill()
        for deployment in list(self._objects.deployments.values()):
            self._world.rollouts.roll(deployment, 1)
        self._end_rollouts()
        self._check_ledgers()

    def _end_rollouts(self) -> None:
        for _ in range(_ROUNDS):
            self._reconcile()
            rolling = [each for each in self._objects.deployments.values() if not self._has_ended(each)]
            if not rolling:
                return
            for deployment in rolling:
                self._continue(deployment)
            self._truth.now += 1.0
        names = ", ".join(each.uid for each in rolling)
        raise ViolationError(f"stuck: the rollouts of {names} do not end beside {len(self._truth.pods)} pods")

    def _fill(self) -> None:
        """Let users create pods, which pose as those of Deployments, until no cap has room for another one."""
        for number in range(_FILL_ROUNDS):
            for name in self._truth.namespaces:
                sets = [self._objects.find_newest_set(each) for each in self._list_deployments({name})]
                owners = [each.owner._replace(kind="StatefulSet") for each in sets if each is not None]
                self._world.rollouts.make_pod(name, owners[number % len(owners)] if owners else None)
                self._decide()
            self._reconcile()

    def _check_ledgers(self) -> None:
        """Check limits, surges and the begin of each ledger."""
        for key in self._list_keys():
            ledger, _ = self._truth.ledgers[key]
            name, hard = key.namespace or "the shared ledger", self._compute_hard(key)
            if ledger.hard[GPU] != hard:
                raise ViolationError(f"limit: {name} has {ledger.hard[GPU]}, not {hard}")
            is_above = ledger.compute_charged().get(GPU, 0) > ledger.hard[GPU]
            if ledger.surge.since is not None and not is_above:
                raise ViolationError(f"limit: the surge of {name} has no end, although nothing exceeds its limit")

    def _list_keys(self) -> list[LedgerKey]:
        """Return the ledgers with member namespaces: no replica writes the limits of others."""
        return [key for key in self._truth.ledgers if self._truth.list_members(key)]

    def _compute_hard(self, key: LedgerKey) -> int:
        cap = self._replica.policy.caps.find_cap(key.cap)
        assert cap is not None
        limit = self._truth.namespaces[key.namespace].limit if key.namespace else None
        return compute_hard(cap, limit, self._replica.read_unix_time(), sum(self._truth.nodes[-1].values()))

    def _make_room(self, key: LedgerKey) -> None:
        """Delete pods without a Deployment, and then Deployments, until those that remain fit under a cap."""
        hard, namespaces = self._compute_hard(key), self._truth.list_members(key)
        for pod in self._list_others(namespaces):
            if self._compute_demand(namespaces) > hard:
                self._truth.delete(pod.uid)
        for deployment in self._list_deployments(namespaces):
            if self._compute_demand(namespaces) > hard:
                for pod in self._objects.list_pods(deployment, dict(self._truth.pods)):
                    self._truth.delete(pod.uid)
                self._objects.delete_deployment(deployment.uid)

    def _compute_demand(self, namespaces: Collection[str]) -> int:
        """Return the GPUs of all pods at the end of the rollouts."""
        deployments = self._list_deployments(namespaces)
        return sum(each.size for each in deployments) + sum(pod.used for pod in self._list_others(namespaces))

    def _list_deployments(self, namespaces: Collection[str]) -> list[Deployment]:
        return [each for each in self._objects.deployments.values() if each.namespace in namespaces]

    def _list_others(self, namespaces: Collection[str]) -> list[Pod]:
        """Return the pods that no stored Deployment has, or that users have resized."""
        pods = self._truth.pods
        owned = {pod.uid for each in self._objects.deployments.values() for pod in self._objects.list_pods(each, pods)}
        others = (pod for pod in pods.values() if pod.uid not in owned or pod.size > 1)
        return [pod for pod in others if pod.namespace in namespaces]

    def _has_ended(self, deployment: Deployment) -> bool:
        pod_set = self._objects.find_newest_set(deployment)
        assert pod_set is not None
        pods = list(self._objects.list_pods(deployment, self._truth.pods))
        return len(pods) == deployment.size and all(pod.owner == pod_set.owner for pod in pods)

    def _continue(self, deployment: Deployment) -> None:
        """Let a Deployment create a pod and delete one."""
        rollouts, pod_set = self._world.rollouts, self._objects.find_newest_set(deployment)
        assert pod_set is not None
        if rollouts.count_missing(deployment) > 0:
            rollouts.make_pod(deployment.namespace, pod_set.owner)
            self._decide()
        rollouts.delete_old_pod(deployment)

    def _decide(self) -> None:
        """Let the replica decide the only request, and store its pod if it is admitted."""
        world = self._world
        world.step("call", 0, self._replica.number, 0)
        while world.running:
            world.step("proceed", 0, ANSWERED, 0)
        world.step("store", 0, 0, 0)
        world.requests.clear()
