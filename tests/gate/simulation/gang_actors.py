"""Workloads whose pods start together, and their controllers."""

from collections.abc import Callable, Mapping

from tallygate.state.ledger.ledger import Operation
from tests.gate.simulation.cluster_objects import Owner, Workload
from tests.gate.simulation.environment import Environment, StepFunction
from tests.gate.simulation.requests import Request

_SMALLEST, _SIZES = 2, 3
"""The number of pods of the smallest workload, and the number of different sizes."""


class Workloads:
    """Users create, suspend and delete workloads. A controller makes the pods of one, and one more for each lost."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._truth = environment.truth
        self._uids = 0
        self.steps: Mapping[str, StepFunction] = {
            "gang": self._create,
            "make": self._make,
            "pose": self._pose,
            "stop": self._stop,
            "suspend": self._suspend,
            "delete_gang": self._delete,
        }

    def _create(self, a: int, b: int) -> str:
        self._uids += 1
        namespace = list(self._truth.namespaces)[a % len(self._truth.namespaces)]
        workload = Workload(f"w{self._uids}", namespace, _SMALLEST + b % _SIZES)
        now, token = self._truth.now, self._environment.token
        request = Request(Operation.CREATE, workload.uid, namespace, 0, workload.size, now, token, workload=workload)
        if not self._environment.send(request):
            return ""
        return f"workload {workload.uid} of {workload.size} pods in {namespace}"

    def _make(self, a: int, _b: int) -> str:
        """Let a controller make the next pod of its workload."""
        waiting = [each for each in self._truth.workloads.values() if each.may_start_pods and self._count_missing(each)]
        if not waiting:
            return ""
        workload = waiting[a % len(waiting)]
        return self._send_pod(workload.namespace, workload.owner)

    def _pose(self, a: int, b: int) -> str:
        """Let a tenant create a pod with the UID of a workload beside the name of another object."""
        workloads = list(self._truth.workloads.values())
        if not workloads:
            return ""
        workload = workloads[a % len(workloads)]
        others = [each.name for each in workloads if each.uid != workload.uid]
        name = (others or ["nothing"])[b % max(len(others), 1)]
        return self._send_pod(workload.namespace, workload.owner._replace(name=name))

    def _send_pod(self, namespace: str, owner: Owner) -> str:
        self._uids += 1
        uid, now, token = f"g{self._uids}", self._truth.now, self._environment.token
        request = Request(Operation.CREATE, uid, namespace, 0, 1, now, token, owner=owner)
        if not self._environment.send(request):
            return ""
        return f"pod {uid} in {namespace}, of {owner.name} with the UID {owner.uid}"

    def _count_missing(self, workload: Workload) -> int:
        """Return the number of pods that a controller still makes: those in flight may yet be stored."""
        creations = [each for each in self._environment.requests if each.operation is Operation.CREATE]
        in_flight = sum(each.owner == workload.owner for each in creations)
        return workload.size - len(self._truth.pods_of_workloads.get(workload.uid, ())) - in_flight

    def _stop(self, a: int, _b: int) -> str:
        """Let a controller make no further pods, which the workload does not show."""
        return self._change(a, "gets no further pods", lambda workload: workload._replace(has_stopped=True))

    def _suspend(self, a: int, _b: int) -> str:
        return self._change(a, "is suspended", lambda workload: workload._replace(is_suspended=True))

    def _change(self, number: int, text: str, change: Callable[[Workload], Workload]) -> str:
        active = [each for each in self._truth.workloads.values() if each.may_start_pods]
        if not active or self._truth.is_stalled:
            return ""
        workload = active[number % len(active)]
        self._truth.put_workload(change(workload))
        return f"workload {workload.uid} {text}"

    def _delete(self, a: int, _b: int) -> str:
        workloads = list(self._truth.workloads)
        if not workloads or self._truth.is_stalled:
            return ""
        uid = workloads[a % len(workloads)]
        self._truth.delete_workload(uid)
        return f"workload {uid} is deleted"
