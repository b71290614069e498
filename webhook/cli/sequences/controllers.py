"""Controllers as far as caps meet them: they make the pods of workloads, try again later, and take away what is owned.

As kube-controller-manager v1.36 does it, but for names (`NAME-1`, `NAME-2`, …, lowest first) and rollouts: when a
template changes, the pods of the old one stay.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from webhook.admission.replicas import count_replicas
from webhook.admission.workloads import REVIEW_TARGETS
from webhook.cli.sequences.api_server import ApiServer
from webhook.cli.sequences.language import MOST_PODS
from webhook.cli.sequences.model import Body
from webhook.cli.sequences.outcome import Outcome
from webhook.cli.sequences.owners import CONTROLLERS, ENDED, SUCCEEDED, is_owned, owner, phase, reference, request
from webhook.cli.sequences.store import Key, Store
from webhook.objects.apps import Workload

_MAKES_PODS: Final = tuple(kind for kind in CONTROLLERS if kind != "Deployment")


@dataclass(frozen=True, slots=True)
class Worked:
    """What controllers came to: events on workloads, pods made, and pods still missing because they were refused."""

    events: tuple[str, ...] = ()
    made: int = 0
    missing: int = 0

    def __add__(self, other: "Worked") -> "Worked":
        """One after the other: what is missing is so at the end."""
        events = tuple(dict.fromkeys((*self.events, *other.events)))
        return Worked(events, self.made + other.made, other.missing)


class Controllers:
    """Bring what is stored to what workloads ask for."""

    def __init__(self, api: ApiServer, store: Store) -> None:
        self._api = api
        self._store = store
        self._waiting: dict[Key, tuple[object, int]] = {}
        self.missing = 0

    def work(self, *, again: bool = False) -> Worked:
        """Let every controller look once at everything of its kind.

        What was refused, and has not changed since, is tried only `again`, as after a while.
        """
        if again:
            self._waiting.clear()
        self._collect()
        events: list[str] = []
        for key, body in list(self._store.every("Deployment")):
            events += self._rolled_out(key, body)
        made = missing = 0
        for kind in _MAKES_PODS:
            for key, body in list(self._store.every(kind)):
                worked = self._replicated(key, body)
                events += worked.events
                made, missing = made + worked.made, missing + worked.missing
        self.missing = missing
        return Worked(tuple(events), made, missing)

    def _collect(self) -> None:
        """Take away what nobody owns any more, as the garbage collector does."""
        for kind in ("ReplicaSet", "Pod"):
            owners = {str(body["metadata"]["uid"]) for each in CONTROLLERS for _, body in self._store.every(each)}
            for key, body in list(self._store.every(kind)):
                owned_by = owner(body)
                if owned_by is not None and str(owned_by.get("uid")) not in owners:
                    self._store.remove(key)

    def _rolled_out(self, key: Key, deployment: Body) -> Iterator[str]:
        """Give a Deployment its ReplicaSet, of as many replicas."""
        wanted = _count(key.kind, deployment)
        own = Key("ReplicaSet", key.namespace, key.name)
        found = self._store.find(own)
        if found is not None and (not is_owned(found, deployment) or _spec(found).get("replicas") == wanted):
            return
        spec = {**_spec(found or deployment), "replicas": wanted}
        made = {name: spec[name] for name in ("replicas", "selector", "template") if name in spec}
        metadata = {"name": key.name, "ownerReferences": [reference(key, deployment)]}
        body = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": made}
        asks = request(key)
        outcome = self._api.create(body, asks) if found is None else self._api.update(body, asks)
        if not outcome.allowed:
            yield _event(key, "ReplicaSetCreateError", outcome)

    def _replicated(self, key: Key, workload: Body) -> Worked:
        """Make the pods that a workload lacks, and delete those that it has too many of."""
        pods = [(name, pod) for name, pod in self._store.every("Pod") if is_owned(pod, workload)]
        active = [name for name, pod in pods if phase(pod) not in ENDED]
        if key.kind == "DaemonSet":
            wanted = len(self._nodes(workload))
        else:
            wanted = min(self._wanted(key, workload, [pod for _, pod in pods]), MOST_PODS)
        for name in reversed(active[wanted:]):
            self._store.remove(name)
        return self._made(key, workload, wanted - len(active), len(active))

    def _made(self, key: Key, workload: Body, lacking: int, active: int) -> Worked:
        """Create pods until one is refused: the others are as it is, and would be refused as well."""
        version = workload["metadata"]["resourceVersion"]
        if self._waiting.get(key) == (version, active):
            return Worked(missing=max(lacking, 0))
        for made in range(lacking):
            outcome = self._api.create(self._pod(key, workload), request(key))
            if not outcome.allowed:
                self._waiting[key] = (version, active + made)
                return Worked((_event(key, "FailedCreate", outcome),), made, lacking - made)
        return Worked(made=max(lacking, 0))

    def _wanted(self, key: Key, workload: Body, pods: list[Body]) -> int:
        count = _count(key.kind, workload)
        if key.kind != "Job":
            return count
        spec = _spec(workload)
        completions: int | None = spec.get("completions")
        done = sum(phase(pod) == SUCCEEDED for pod in pods)
        if completions is None:
            return 0 if done and spec.get("parallelism") is not None else max(count - done, 0)
        return max(min(count, completions - done), 0)

    def _nodes(self, workload: Body) -> list[Key]:
        """The nodes that a DaemonSet's pods may run on, by its node selector."""
        wanted = (_template(workload).get("spec") or {}).get("nodeSelector") or {}
        return [
            key
            for key, node in self._store.every("Node")
            if wanted.items() <= (node["metadata"].get("labels") or {}).items()
        ]

    def _pod(self, key: Key, workload: Body) -> Body:
        template = _template(workload)
        metadata = {
            **(template.get("metadata") or {}),
            "name": self._name(key),
            "namespace": key.namespace,
            "ownerReferences": [reference(key, workload)],
        }
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template.get("spec") or {}}

    def _name(self, key: Key) -> str:
        """The lowest number that is free; a StatefulSet counts from 0."""
        number = int(key.kind != "StatefulSet")
        while Key("Pod", key.namespace, f"{key.name}-{number}") in self._store:
            number += 1
        return f"{key.name}-{number}"


def _count(kind: str, body: Body) -> int:
    group = str(body["apiVersion"]).rpartition("/")[0]
    judged = REVIEW_TARGETS[group, kind].decode(msgspec.json.encode(body))
    found = count_replicas(kind, judged) if isinstance(judged, Workload) and judged.spec and judged.spec.template else None
    return found.count if found else 0


def _spec(body: Body) -> Body:
    found: Body = body.get("spec") or {}
    return found


def _template(workload: Body) -> Body:
    found: Body = _spec(workload).get("template") or {}
    return found


def _event(key: Key, reason: str, outcome: Outcome) -> str:
    return f"{key}: {reason}: {outcome.message}"


def with_work(outcome: Outcome, worked: Worked) -> Outcome:
    """What came of a step, with what controllers made of it."""
    return replace(outcome, events=worked.events, made=worked.made, missing=worked.missing)
