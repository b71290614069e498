"""The steps of controllers that roll: they create pods of a new revision before they delete those of the old one.

A controller may stop at any time, begin another rollout in the middle of one, and return to an earlier revision.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tallygate.state.ledger.ledger import Operation
from tests.schedules import pick
from tests.state.simulation.api_requests import Request
from tests.state.simulation.ground_truth import GroundTruth
from tests.state.simulation.policies import Policy
from tests.state.simulation.replica_steps import StepFunction
from tests.state.simulation.stored_objects import Pod, Template

MAX_SURGE = 2
"""The number of pods that a controller may have above its size."""
_MAX_SURGE_UNITS = 4


@dataclass
class Workload:
    """A workload of `count` pods of `size` units, and the number of the revision that its controller makes now."""

    uid: str
    namespace: int
    count: int
    size: int
    token: int
    number: int = 1
    newest: int = 1


@dataclass
class SurgeSteps:
    """The steps of controllers; `accept` starts one of the `requests`, `create_uid` returns a UID no object has."""

    truth: GroundTruth
    requests: Sequence[Request]
    policies: list[Policy]
    accept: Callable[[Request], str]
    create_uid: Callable[[], str]
    workloads: list[Workload] = field(default_factory=list)

    def list_steps(self) -> Mapping[str, StepFunction]:
        """Return each step by the name of its operation."""
        return {
            "roll": self._roll,
            "make": self._make,
            "retire": self._retire,
            "republish_surge": self._republish,
        }

    def populate(self) -> None:
        """Store the pods of every controller, all of one revision, and note the surges of the first policy."""
        for number, (namespace, count, size) in enumerate(self.truth.scenario.rollouts):
            workload = Workload(f"w{number}", namespace, count, size, token=(number + 1) * 22_111 & 0xFFFF)
            self.workloads.append(workload)
            for _ in range(count):
                uid = self.create_uid()
                token = len(self.truth.pods) * 9973 & 0xFFFF
                template, name = Template(workload.uid, workload.number), f"{workload.uid}-{uid}"
                pod = Pod(uid, namespace, name, size, classed=True, ended=False, revision=0, token=token)
                self.truth.put(pod._replace(template=template))
        self.truth.surges |= dict(enumerate(self.policies[0].surges))

    def list_pods(self, workload: Workload) -> list[Pod]:
        """Return the stored pods of a workload that have not ended."""
        return [pod for pod in self.truth.pods.values() if pod.template.workload == workload.uid and not pod.ended]

    def list_old(self, workload: Workload) -> list[Pod]:
        """Return those pods that its controller replaces by others."""
        return [pod for pod in self.list_pods(workload) if pod.template.number != workload.number]

    def _roll(self, a: int, b: int, _c: int) -> str:
        """Let a controller begin a rollout: of a new revision, or of an earlier one."""
        workload = pick(self.workloads, a)
        if workload is None:
            return ""
        if b % 4 == 0 and workload.number > 1:
            workload.number -= 1
        else:
            workload.number = workload.newest = workload.newest + 1
        return f"{workload.uid} rolls to revision {workload.number}"

    def _make(self, a: int, _b: int, _c: int) -> str:
        """Let a controller create a pod, if it lacks one and has not too many in all."""
        workload = pick([each for each in self.workloads if self._lacks_pod(each)], a)
        if workload is None:
            return ""
        uid, template = self.create_uid(), Template(workload.uid, workload.number)
        name, namespace = f"{workload.uid}-{uid}", workload.namespace
        now = self.truth.now
        request = Request(uid, Operation.CREATE, namespace, name, workload.size, classed=True, arrived_at=now)
        request.template = template
        line = self.accept(request)
        return line and f"{line}, of {workload.uid} and revision {workload.number}"

    def _lacks_pod(self, workload: Workload) -> bool:
        requested = [each.template for each in self.requests if each.operation is Operation.CREATE]
        templates = [*(pod.template for pod in self.list_pods(workload)), *requested]
        own = [each.number for each in templates if each.workload == workload.uid]
        return own.count(workload.number) < workload.count and len(own) < workload.count + MAX_SURGE

    def _retire(self, a: int, b: int, _c: int) -> str:
        """Let a controller delete an old pod, as long as enough remain."""
        excessive = [each for each in self.workloads if len(self.list_pods(each)) > each.count and self.list_old(each)]
        workload = pick(excessive, a)
        pod = None if workload is None else pick(self.list_old(workload), b)
        if pod is None or self.truth.is_stalled:
            return ""
        self.truth.delete(pod.uid)
        return f"{pod.uid} of {pod.template} is deleted (revision {self.truth.revision})"

    def _republish(self, a: int, b: int, c: int) -> str:
        """Publish a policy with another surge of a cap: another amount, or another time."""
        last, cap = self.policies[-1], a % len(self.truth.scenario.caps)
        units, ticks = list(last.surges), list(last.surge_ticks)
        if c % 3:
            units[cap] = b % _MAX_SURGE_UNITS
        else:
            ticks[cap] = 2 + b % 8
        self.policies.append(replace(last, surges=tuple(units), surge_ticks=tuple(ticks)))
        self.truth.surges[cap] = max(self.truth.surges[cap], units[cap])
        return f"policy {len(self.policies) - 1} is published: surges of {units} for {ticks}"
