"""The replay of a scenario's requests to an API server that has the compiled objects of its policies, and no gate.

Each request is sent as a dry run, and its answer compared with that of the gate. A pod that the gate admits is then
created, so that ResourceQuotas count it. What is not compared, and why:

- Objects that complete pods (LimitRange, PriorityClass, RuntimeClass): no request of such a scenario is sent, since an
  API server learns of them at an unknown time.
- Nodes, DeviceClasses and other objects that no compiled object is about, and kinds of other projects: the pods of
  these are sent.
- Updates of objects other than pods, whose former state is not stored here, and the status of claims.
- What the simulated API server rejects, what the real one rejects for another reason than a compiled object, and what
  the gate does not decide yet.
- That the gate denies what the compiled objects allow, after the real API server rejected what the gate admits.
"""

import copy
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from e2e.api import Answer, Api, Object, api
from e2e.counted_quotas import wait_for_count
from e2e.drawn_reviews import find_pod_spec
from e2e.enforced_policies import PolicyMarker, find_denial
from e2e.recorded_scenarios import RecordedEnd, RecordedEvent, RecordedRequest, record_events
from e2e.sent_users import create_headers
from e2e.waiting import until
from tallygate.admission.kinds import BUILT_IN_TARGETS
from tallygate.backstop.compilation import compile_policies
from tallygate.backstop.gaps import Gap
from tallygate.backstop.resource_quotas import ObservedCluster
from tallygate.cli.scenarios.scenario import API_SERVER, RequestResult, Scenario
from tallygate.cli.scenarios.scenario_document import ScenarioVerdict
from tallygate.policy.model import COMPILED_FROM_LABEL

REPLAYED_DEFAULT: Final = "scenario-default"
"""The namespace in which requests to `default`, which no policy of a scenario names, are replayed."""

_EXCLUDED: Final = ("kube-system", "tallygate-system")
_WITHIN: Final = 240.0  # seconds
_MOST_ASKED: Final = 20
"""How often a dry run is repeated while its answer differs: an API server may read the status of a quota late."""
_COMPLETING: Final = frozenset({"LimitRange", "PriorityClass", "RuntimeClass"})
_DRY_RUN: Final = {"dryRun": "All"}
_QUOTA: Final = re.compile(r"(exceeded|failed) quota: tallygate-|status unknown for quota: tallygate-")
_ORIGIN: Final = re.compile(r"\((?P<code>TG\d{3}), (?P<policy>(cap|rule) [\w.-]+)")
_SUBJECTS: Final[Mapping[str, tuple[str, ...]]] = {
    "TG104": ("checks.requestsEqualLimits",),
    "TG112": ("checks.advertised",),
    "TG113": ("checks.schedulable",),
    "TG114": ("checks.schedulable",),
    "TG123": ("checks.activeDeadlineSeconds",),
    "TG124": ("checks.activeDeadlineSeconds",),
    "TG201": ("admit", "namespaces"),
    "TG204": ("workloads",),
    "TG215": ("admit",),
}
"""The subjects of the gaps by which compiled objects may lack a denial, by its code."""
_SUBJECTS_OF_NAMES: Final = ("hard.", "surge.amounts.", "overrideAnnotation.most.", "overrides.hard.")
"""The beginnings of subjects that end with a counted name: such a gap is about a denial that names it."""


@dataclass
class ScenarioReplay:
    """The replay of scenarios one after another in the same namespaces, which exist and are empty."""

    marker: PolicyMarker
    counts: Counter[str] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)
    _enforced: object = ()

    @property
    def client(self) -> Api:
        """The API of the cluster."""
        return api(self.marker.cluster.kubeconfig)

    def play(self, scenario: Scenario) -> None:
        """Replay a scenario, and delete its pods and quotas.

        Raises:
            ClusterError: if the API server refuses an object of the setting, or does not answer.
        """
        events = record_events(scenario)
        if any(event.body["kind"] in _COMPLETING for event in events if isinstance(event, RecordedRequest)):
            self.counts["scenario left out"] += 1
            return
        self.counts["scenario"] += 1
        run = _ScenarioRun(self, scenario, _find_classes(events))
        try:
            run.apply_objects()
            for event in events:
                run.play(event)
        finally:
            run.remove_objects()

    def enforce(self, policies: Sequence[Object], labels: Mapping[str, Mapping[str, str]]) -> None:
        """Let the API server enforce admission policies; without any the labels of the namespaces say nothing."""
        wanted = (policies, labels) if policies else ()
        if wanted != self._enforced:
            self.marker.enforce(policies, labels)
            self._enforced = wanted


@dataclass
class _ScenarioRun:
    """One scenario: its namespaces with their labels, the compiled objects, and what the gate still counts."""

    replay: ScenarioReplay
    scenario: Scenario
    classes: Mapping[str, str]
    labels: dict[str, Mapping[str, str]] = field(default_factory=dict)
    quotas: list[Object] = field(default_factory=list)
    gaps: Sequence[Gap] = ()
    is_same: bool = True

    def __post_init__(self) -> None:
        self.labels = {_rename(name): labels for name, labels in self.scenario.namespaces.items()}

    def apply_objects(self) -> None:
        """Compile the policies for the present labels, and let the cluster have exactly these objects."""
        cluster = ObservedCluster(self.labels, self.classes, _EXCLUDED)
        objects, self.gaps = compile_policies(self.scenario.policies, cluster, self.scenario.time)
        self.replay.enforce([each for each in objects if each["kind"] != "ResourceQuota"], self.labels)
        quotas = [each for each in objects if each["kind"] == "ResourceQuota"]
        for quota in self.quotas:
            if quota not in quotas:
                self.replay.client.delete(f"{_get_quotas_path(quota)}/{quota['metadata']['name']}")
        for quota in quotas:
            if quota not in self.quotas:
                self.replay.client.create(_get_quotas_path(quota), quota)
        self.quotas = quotas

    def remove_objects(self) -> None:
        """Delete the pods and quotas of all namespaces, and wait until no pod is left."""
        client = self.replay.client
        for namespace in self.labels:
            root = f"/api/v1/namespaces/{namespace}"
            client.delete(f"{root}/resourcequotas", labelSelector=COMPILED_FROM_LABEL)
            client.delete(f"{root}/pods", gracePeriodSeconds="0")
            until(f"{namespace} is empty", partial(_is_empty, client, f"{root}/pods"), _WITHIN)

    def play(self, event: RecordedEvent) -> None:
        """Replay an event."""
        if isinstance(event, RecordedEnd):
            self._end(event)
        elif event.body["kind"] == "Namespace":
            self._set_labels(event)
        elif reason := self._find_obstacle(event):
            self.replay.counts[reason] += 1
        else:
            self._compare(event)

    def _end(self, event: RecordedEnd) -> None:
        if event.key.kind != "Pod" or event.key.namespace in _EXCLUDED:
            return
        client, path = self.replay.client, f"{_get_pods_path(_rename(event.key.namespace))}/{event.key.name}"
        if client.find(path) is None:
            return
        if event.phase:
            client.patch(f"{path}/status", {"status": {"phase": event.phase}})
        else:
            client.delete(path, gracePeriodSeconds="0")

    def _set_labels(self, event: RecordedRequest) -> None:
        if not event.result.allowed or event.request.dry_run:
            return
        metadata = event.body["metadata"]
        name, labels = _rename(metadata["name"]), metadata.get("labels") or {}
        if self.labels.get(name) != labels:
            self.labels = {**self.labels, name: labels}
            self.apply_objects()

    def _find_obstacle(self, event: RecordedRequest) -> str:
        """Return why a request is not sent; empty if it is."""
        kind = event.body["kind"]
        group = event.body["apiVersion"].rpartition("/")[0]
        if (group, kind) not in BUILT_IN_TARGETS or kind in {"Node", "ResourceQuota"}:
            return "of a kind without compiled objects"
        if event.request.namespace in _EXCLUDED:
            return "of an excluded namespace"
        if event.is_update and kind != "Pod":
            return "an update of no pod"
        if event.result.verdict is ScenarioVerdict.RETRY:
            return "not decided by the gate"
        if event.result.rejected_by == API_SERVER:
            return "rejected by the simulated API server"
        return ""

    def _compare(self, event: RecordedRequest) -> None:
        """Send a request as a dry run, compare the answers, and carry it out if it is a pod that the gate admits."""
        send = self._create_sender(event)
        if send is None:
            self.replay.counts["an update of a pod that is not stored"] += 1
            return
        wait_for_count(self.replay.client, self.quotas)
        answer = self._ask(send, event.result)
        is_denied = bool(find_denial(answer) or _QUOTA.search(answer.rejection))
        if not (answer.is_done or is_denied):
            self.replay.counts["rejected by the real API server"] += 1
            self.is_same &= not event.result.allowed
            return
        self.replay.counts["compared"] += 1
        self.replay.counts["denied by both"] += is_denied and not event.result.allowed
        if is_denied and event.result.allowed:
            self._report(event, f"denied by compiled objects alone: {answer.rejection}")
        if answer.is_done and not event.result.allowed:
            self.replay.counts["denied by the gate alone" if self.is_same else "denied after such a rejection"] += 1
            if self.is_same and (origins := self._list_unexplained(event.result.message)):
                self._report(event, f"denied by the gate alone, without a gap: {origins}: {event.result.message}")
        if event.result.allowed and not event.request.dry_run and event.body["kind"] == "Pod":
            self.is_same &= send({}).is_done

    def _ask(self, send: Callable[[Mapping[str, str]], Answer], result: RequestResult) -> Answer:
        """Return the answer to a dry run, and the last one of several if it differs without a gap."""
        answer = send(_DRY_RUN)
        for _ in range(_MOST_ASKED):
            if answer.is_done == result.allowed or (answer.is_done and not self._list_unexplained(result.message)):
                break
            wait_for_count(self.replay.client, self.quotas)
            answer = send(_DRY_RUN)
        return answer

    def _create_sender(self, event: RecordedRequest) -> Callable[[Mapping[str, str]], Answer] | None:
        """Return a function that sends a request; None if the pod of an update is not stored."""
        client, namespace = self.replay.client, _rename(event.request.namespace)
        body = _complete(event.body, namespace)
        if not event.is_update and event.result.stored_body is not None:
            body["metadata"]["name"] = event.result.stored_body["metadata"]["name"]
        user = event.request.user
        headers = create_headers(user.name, user.groups)
        path = client.collection(body, namespace)
        if not event.is_update:
            return lambda query: client.ask("POST", path, body, query=query, headers=headers)
        path = f"{path}/{body['metadata']['name']}"
        stored = client.find(path)
        if stored is None:
            return None
        if event.request.subresource:
            path = f"{path}/{event.request.subresource}"
            for container, changed in zip(stored["spec"]["containers"], body["spec"]["containers"], strict=True):
                container["resources"] = changed.get("resources") or {}
        else:
            stored["metadata"]["labels"] = body["metadata"].get("labels") or {}
        return lambda query: client.ask("PUT", path, stored, query=query, headers=headers)

    def _list_unexplained(self, message: str) -> list[str]:
        """Return the origins in a denial of the gate that no gap of their policy explains."""
        return [
            found[0]
            for found in _ORIGIN.finditer(message)
            if not any(
                gap.policy == found["policy"] and _explains(gap.subject, found["code"], message) for gap in self.gaps
            )
        ]

    def _report(self, event: RecordedRequest, text: str) -> None:
        source = self.scenario.source
        place = f"{source.file}:{source.line}, {self.scenario.name}"
        name = event.body["metadata"].get("name", "")
        self.replay.differences.append(f"{place}: {event.body['kind']} {event.request.namespace}/{name}: {text}")


def _explains(subject: str, code: str, message: str) -> bool:
    """Return whether a gap with this subject, of the policy of a denial, is a reason for it."""
    names = [subject.removeprefix(start) for start in _SUBJECTS_OF_NAMES if subject.startswith(start)]
    return subject in _SUBJECTS.get(code, ()) or any(name in message for name in names)


def _find_classes(events: Sequence[RecordedEvent]) -> dict[str, str]:
    """Return the extended resource of each DeviceClass that a scenario creates, empty if it has none."""
    classes = (event.body for event in events if isinstance(event, RecordedRequest))
    return {
        body["metadata"]["name"]: (body.get("spec") or {}).get("extendedResourceName", "")
        for body in classes
        if body["kind"] == "DeviceClass"
    }


def _rename(namespace: str) -> str:
    return REPLAYED_DEFAULT if namespace == "default" else namespace


def _get_pods_path(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


def _get_quotas_path(quota: Object) -> str:
    return f"/api/v1/namespaces/{quota['metadata']['namespace']}/resourcequotas"


def _is_empty(client: Api, path: str) -> bool:
    return client.items(path) == []


def _complete(body: Object, namespace: str) -> Object:
    """Return an object with the fields that its kind must have; no scheduler and no owner knows its pods."""
    made: Object = copy.deepcopy(body)
    made["metadata"] = {**made["metadata"], "namespace": namespace}
    for name in ("ownerReferences", "uid", "resourceVersion"):
        made["metadata"].pop(name, None)
    pods = find_pod_spec(made)
    if pods is None:
        return made
    pods["schedulerName"] = "no-scheduler"
    for container in (*pods.get("containers", ()), *pods.get("initContainers", ())):
        container.setdefault("image", "example.com/image:1")
    spec = made.get("spec") or {}
    if made["kind"] in {"Job", "CronJob"}:
        pods.setdefault("restartPolicy", "Never")
    if made["kind"] in {"Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"}:
        metadata = spec["template"].setdefault("metadata", {})
        labels = {**(metadata.get("labels") or {}), "app": "replayed"}
        metadata["labels"], spec["selector"] = labels, {"matchLabels": {"app": "replayed"}}
    return made
