"""The cases: objects, each in a namespace of its own, and the number of pods that controllers make of each template."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import yaml

from e2e.api import Api, Object
from e2e.waiting import until
from e2e.workload_kinds.controllers.projects import KUEUE, Project

_CASES: Final = "cases.yaml"
_CHANGE: Final = "then"
_METADATA: Final = "metadata"
_KUEUE_VERSION: Final = "kueue.x-k8s.io/v1beta2"
_QUEUE: Final = "queue"
_NAME: Final = "pods"
_LABEL: Final = "template"
_UNCHANGED_FOR: Final = 20.0  # seconds; a controller that waits longer than this for nothing is not among these
_ACCEPTED_WITHIN: Final = 30.0  # seconds
_SETTLED_WITHIN: Final = 600.0  # seconds
_JSON_PATCH: Final = "application/json-patch+json"
_RUNNING: Final = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}


@dataclass(frozen=True)
class Case:
    """A sentence that is the name of the case, the project whose controller it asks, and the object.

    The objects `beside` it exist before. `change` is a JSON patch of the object, as by an autoscaler or a user.
    """

    name: str
    project: Project
    namespace: str
    object: Object
    beside: tuple[Object, ...] = ()
    change: tuple[Object, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """The object in its forms, as written and as stored, and the number of pods by the label of their template.

    `changed` is that after the change, while none of the pods that it brings is ready; None without a change. Pods of
    no template of the object count under an empty label.
    """

    case: Case
    forms: tuple[Object, ...]
    pods: Mapping[str, int]
    changed: Mapping[str, int] | None


def list_cases(project: Project) -> Iterator[Case]:
    """Yield the cases of a project in their order in its file."""
    content = yaml.safe_load((project.path / _CASES).read_text())
    for number, (name, body) in enumerate(content["cases"].items()):
        specs = {content["kind"]: body} if "kind" in content else dict(body)
        change, metadata = specs.pop(_CHANGE, ()), specs.pop(_METADATA, content.get(_METADATA, {}))
        *beside, asked = (
            {"apiVersion": content["versions"][kind], "kind": kind, "metadata": {"name": _NAME}, "spec": spec}
            for kind, spec in specs.items()
        )
        asked["metadata"] |= metadata
        yield Case(name, project, f"case-{number}", asked, tuple(beside), tuple(change))


def count_pods(project: Project, client: Api) -> list[Outcome]:
    """Create the objects of a project, and count their pods once no controller makes or deletes one any more.

    Raises:
        ClusterError: if an object is refused, or the number of pods keeps changing.
    """
    cases = list(list_cases(project))
    if project is KUEUE:
        _create_queue(client)
    for case in cases:
        client.create("/api/v1/namespaces", {"kind": "Namespace", "metadata": {"name": case.namespace}})
    until("pods are accepted", lambda: all(_accepts_pods(client, case.namespace) for case in cases), _SETTLED_WITHIN)
    for case in cases:
        if project is KUEUE:
            queue = {"kind": "LocalQueue", "metadata": {"name": _QUEUE}, "spec": {"clusterQueue": _QUEUE}}
            _create(client, {"apiVersion": _KUEUE_VERSION, **queue}, case.namespace)
        for each in case.beside:
            _create(client, each, case.namespace)
    for case in cases:
        _create_when_accepted(case, client)
    _wait_for_pods(client, starts=True)
    pods, forms = _count_by_template(client), [_read_forms(case, client) for case in cases]
    changed = _change(cases, client)
    none: Counter[str] = Counter()
    return [
        Outcome(
            case,
            form,
            pods.get(case.namespace, none),
            changed.get(case.namespace, none) if case.change else None,
        )
        for case, form in zip(cases, forms, strict=True)
    ]


def _change(cases: Sequence[Case], client: Api) -> dict[str, Counter[str]]:
    """Change the objects that have a change, and return the number of pods by namespace and label."""
    if not any(case.change for case in cases):
        return {}
    for case in cases:
        if case.change:
            path = f"{client.collection(case.object, case.namespace)}/{_NAME}"
            client.patch(path, case.change, _JSON_PATCH)
    _wait_for_pods(client, starts=False)
    return _count_by_template(client)


def _wait_for_pods(client: Api, *, starts: bool) -> None:
    until("no pod is made or deleted any more", _Watch(client, starts=starts).is_settled, _SETTLED_WITHIN)


def _create(client: Api, wanted: Object, namespace: str) -> None:
    client.create(client.collection(wanted, namespace), wanted)


def _create_when_accepted(case: Case, client: Api) -> None:
    """Create the object of a case; a webhook may refuse it until its cache has the objects beside it.

    Raises:
        ClusterError: if it is refused for long.
    """
    refusals: list[str] = []

    def is_accepted() -> bool:
        answer = client.ask("POST", client.collection(case.object, case.namespace), case.object)
        refusals[:] = [answer.body]
        return answer.is_done

    until(f"the object of the case {case.name!r} is accepted", is_accepted, _ACCEPTED_WITHIN, lambda: refusals[0])


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

    If it `starts` pods, they are set to running and ready, as by a kubelet: some controllers make a pod once another
    one is ready.
    """

    def __init__(self, client: Api, *, starts: bool) -> None:
        self._client = client
        self._starts = starts
        self._pods: frozenset[str] = frozenset()
        self._since = time.monotonic()

    def is_settled(self) -> bool:
        """Return whether the pods have been the same, and all of them ready, for some time."""
        pods = _list_pods(self._client)
        for pod in pods if self._starts else ():
            if pod["status"]["phase"] == "Pending":
                path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}/status"
                self._client.patch(path, _RUNNING)
        identities = frozenset(pod["metadata"]["uid"] for pod in pods)
        if identities != self._pods:
            self._pods, self._since = identities, time.monotonic()
        return time.monotonic() - self._since > _UNCHANGED_FOR


def _list_pods(client: Api) -> list[Any]:
    return [pod for pod in client.items("/api/v1/pods") if "deletionTimestamp" not in pod["metadata"]]


def _count_by_template(client: Api) -> dict[str, Counter[str]]:
    """Return the number of pods by namespace and label."""
    counts: dict[str, Counter[str]] = {}
    for pod in _list_pods(client):
        metadata = pod["metadata"]
        counts.setdefault(metadata["namespace"], Counter())[metadata["labels"].get(_LABEL, "")] += 1
    return counts


def _read_forms(case: Case, client: Api) -> tuple[Object, ...]:
    """Return the object as written and as its webhooks and its definition complete it; of Kueue, the Workload."""
    if case.project is KUEUE:
        kind = {"apiVersion": _KUEUE_VERSION, "kind": "Workload"}
        found = client.items(client.collection(kind, case.namespace))
        return tuple({**kind, "metadata": {"name": _NAME}, **_select_workload(each)} for each in found)
    stored = client.get(f"{client.collection(case.object, case.namespace)}/{_NAME}")
    whole = {**case.object, "spec": stored["spec"]}
    return (case.object,) if whole == case.object else (case.object, whole)


def _select_workload(stored: Object) -> Object:
    """Return what a Workload asks for, and what Kueue admits of it."""
    admission = stored["status"].get("admission")
    return {"spec": stored["spec"], **({"status": {"admission": admission}} if admission else {})}
