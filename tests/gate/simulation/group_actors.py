"""PodGroups, and the controllers that make their pods."""

from collections.abc import Mapping

from tallygate.state.ledger.ledger import Operation
from tests.gate.simulation.cluster_objects import Group
from tests.gate.simulation.environment import Environment, StepFunction
from tests.gate.simulation.requests import Request

_NAMES = ("ring", "mesh")
_SMALLEST, _SIZES = 2, 2
"""The `minCount` of the smallest group, and the number of different sizes."""


class PodGroups:
    """Users create and delete groups, again under the same names. A controller makes the pods of each.

    It makes one more for each pod that is lost, ends or is deleted. Sometimes the pods of a deleted group stay.
    """

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._truth = environment.truth
        self._uids = 0
        self.steps: Mapping[str, StepFunction] = {
            "group": self._create,
            "member": self._make,
            "stop_group": self._stop,
            "delete_group": self._delete,
        }

    def _create(self, a: int, b: int) -> str:
        namespace, name = list(self._truth.namespaces)[a % len(self._truth.namespaces)], _NAMES[b % len(_NAMES)]
        if self._truth.is_stalled or self._truth.find_group(namespace, name) is not None:
            return ""
        self._uids += 1
        group = Group(f"q{self._uids}", namespace, name, _SMALLEST + (b >> 2) % _SIZES, self._truth.now)
        self._truth.groups[group.uid] = group
        return f"group {group.uid} of {group.size} pods in {namespace}, of the name {name}"

    def _make(self, a: int, _b: int) -> str:
        """Let a controller make the next pod of its group."""
        waiting = [each for each in self._truth.groups.values() if not each.has_stopped and self._count_missing(each)]
        if not waiting:
            return ""
        group = waiting[a % len(waiting)]
        self._uids += 1
        uid, now, token = f"m{self._uids}", self._truth.now, self._environment.token
        request = Request(Operation.CREATE, uid, group.namespace, 0, 1, now, token, group=group.name)
        return f"pod {uid} in {group.namespace}, of {group.name}" if self._environment.send(request) else ""

    def _count_missing(self, group: Group) -> int:
        """Return the number of pods that a controller makes: those in flight may yet be stored."""
        key = group.namespace, group.name
        running = sum((pod.namespace, pod.group) == key and not pod.ended for pod in self._truth.pods.values())
        in_flight = sum((each.namespace, each.group) == key for each in self._environment.requests)
        return group.size - running - in_flight

    def _stop(self, a: int, _b: int) -> str:
        """Let a controller make no further pods, which the group does not show."""
        group = self._pick(a)
        if group is None:
            return ""
        self._truth.groups[group.uid] = group._replace(has_stopped=True)
        return f"group {group.uid} gets no further pods"

    def _delete(self, a: int, b: int) -> str:
        group = self._pick(a)
        if group is None or self._truth.is_stalled:
            return ""
        del self._truth.groups[group.uid]
        for pod in list(self._truth.pods.values()) if b & 1 else ():
            if (pod.namespace, pod.group) == (group.namespace, group.name):
                self._truth.delete(pod.uid)
        return f"group {group.uid} is deleted{', with its pods' if b & 1 else ''}"

    def _pick(self, number: int) -> Group | None:
        groups = list(self._truth.groups.values())
        return groups[number % len(groups)] if groups else None
