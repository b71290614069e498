"""The cases: objects, each in a namespace of its own, and the number of pods that controllers make of each template."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from e2e.api import Api, Object
from e2e.waiting import until
from e2e.workload_kinds.controllers.projects import JOBSET, KUEUE, LWS, TRAINING, Project

_CASES: Final = Path(__file__).parent / "cases.yaml"
_VERSIONS: Final = {
    "Job": "batch/v1",
    "JobSet": "jobset.x-k8s.io/v1alpha2",
    "LeaderWorkerSet": "leaderworkerset.x-k8s.io/v1",
}
_TRAINING_VERSION: Final = "kubeflow.org/v1"
_SECTIONS: Final = {"jobset": JOBSET, "lws": LWS, "training": TRAINING, "kueue": KUEUE}
_ONLY_KINDS: Final = {"jobset": "JobSet", "lws": "LeaderWorkerSet"}
_KUEUE_VERSION: Final = "kueue.x-k8s.io/v1beta2"
_QUEUE: Final = "queue"
_LABEL: Final = "template"
_UNCHANGED_FOR: Final = 20.0  # seconds; a controller that waits longer than this for nothing is not among these
_SETTLED_WITHIN: Final = 600.0  # seconds
_RUNNING: Final = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}


@dataclass(frozen=True)
class Case:
    """A sentence that is the name of the case, the project whose controller it asks, and the object."""

    name: str
    project: Project
    namespace: str
    object: Object


@dataclass(frozen=True)
class Outcome:
    """The object in its forms, as written and as stored, and the number of pods by the label of their template."""

    case: Case
    forms: tuple[Object, ...]
    pods: Mapping[str, int]


def list_cases() -> Iterator[Case]:
    """Yield the cases in their order in the file."""
    content = yaml.safe_load(_CASES.read_text())
    number = 0
    for section, project in _SECTIONS.items():
        for name, body in content.get(section, {}).items():
            kind, spec = (_ONLY_KINDS[section], body) if section in _ONLY_KINDS else next(iter(body.items()))
            labels = {"kueue.x-k8s.io/queue-name": _QUEUE} if project is KUEUE else {}
            yield Case(
                name,
                project,
                f"case-{number}",
                {
                    "apiVersion": _VERSIONS.get(kind, _TRAINING_VERSION),
                    "kind": kind,
                    "metadata": {"name": "pods", **({"labels": labels} if labels else {})},
                    "spec": spec,
                },
            )
            number += 1


def count_pods(cases: Sequence[Case], client: Api) -> list[Outcome]:
    """Create the objects, and count their pods once no controller makes or deletes one any more.

    Raises:
        ClusterError: if an object is refused, or the number of pods keeps changing.
    """
    if any(case.project is KUEUE for case in cases):
        _create_queue(client)
    for case in cases:
        client.create("/api/v1/namespaces", {"kind": "Namespace", "metadata": {"name": case.namespace}})
    until("pods are accepted", lambda: all(_accepts_pods(client, case.namespace) for case in cases), _SETTLED_WITHIN)
    for case in cases:
        if case.project is KUEUE:
            queue = {"kind": "LocalQueue", "metadata": {"name": _QUEUE}, "spec": {"clusterQueue": _QUEUE}}
            _create(client, {"apiVersion": _KUEUE_VERSION, **queue}, case.namespace)
        _create(client, case.object, case.namespace)
    until("no pod is made or deleted any more", _Watch(client).is_settled, _SETTLED_WITHIN)
    pods = _count_by_template(client)
    return [Outcome(case, _read_forms(case, client), pods.get(case.namespace, Counter())) for case in cases]


def _create(client: Api, wanted: Object, namespace: str) -> None:
    client.create(client.collection(wanted, namespace), wanted)


def _create_queue(client: Api) -> None:
    """Create a queue of Kueue that admits all workloads: their pods request nothing."""
    group = {
        "coveredResources": ["cpu"],
        "flavors": [{"name": _QUEUE, "resources": [{"name": "cpu", "nominalQuota": "100"}]}],
    }
    spec = {"namespaceSelector": {}, "resourceGroups": [group]}
    for kind, more in (("ResourceFlavor", {}), ("ClusterQueue", {"spec": spec})):
        _create(client, {"apiVersion": _KUEUE_VERSION, "kind": kind, "metadata": {"name": _QUEUE}, **more}, "")


def _accepts_pods(client: Api, namespace: str) -> bool:
    return client.find(f"/api/v1/namespaces/{namespace}/serviceaccounts/default") is not None


class _Watch:
    """The number of pods, and the time since it has not changed.

    Pods are set to running and ready, as by a kubelet: some controllers make a pod once another one is ready.
    """

    def __init__(self, client: Api) -> None:
        self._client = client
        self._pods: frozenset[str] = frozenset()
        self._since = time.monotonic()

    def is_settled(self) -> bool:
        """Return whether the pods have been the same, and all of them ready, for some time."""
        pods = self._client.items("/api/v1/pods")
        for pod in pods:
            if pod["status"]["phase"] == "Pending":
                path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}/status"
                self._client.patch(path, _RUNNING)
        identities = frozenset(pod["metadata"]["uid"] for pod in pods)
        if identities != self._pods:
            self._pods, self._since = identities, time.monotonic()
        return time.monotonic() - self._since > _UNCHANGED_FOR


def _count_by_template(client: Api) -> dict[str, Counter[str]]:
    """Return the number of pods by namespace and label."""
    counts: dict[str, Counter[str]] = {}
    for pod in client.items("/api/v1/pods"):
        metadata = pod["metadata"]
        counts.setdefault(metadata["namespace"], Counter())[metadata["labels"][_LABEL]] += 1
    return counts


def _read_forms(case: Case, client: Api) -> tuple[Object, ...]:
    """Return the object as written and as its webhooks and its definition complete it, or the Workload of Kueue."""
    if case.project is KUEUE:
        kind = {"apiVersion": _KUEUE_VERSION, "kind": "Workload"}
        found = client.items(client.collection(kind, case.namespace))
        return tuple({**kind, "metadata": {"name": "pods"}, "spec": each["spec"]} for each in found)
    stored = client.get(f"{client.collection(case.object, case.namespace)}/pods")
    whole = {**case.object, "spec": stored["spec"]}
    return (case.object,) if whole == case.object else (case.object, whole)
