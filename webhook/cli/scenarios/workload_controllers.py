"""Who owns what: controllers by kind, how they sign, and what their objects say of it.

Controllers as far as caps meet them: they make the pods of workloads, try again later, and take away what is owned.

As kube-controller-manager v1.36 does it, but for names (`NAME-1`, `NAME-2`, …, lowest first) and rollouts: when a
template changes, the pods of the old one stay.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from webhook.admission.kinds import REVIEW_TARGETS, count_replicas
from webhook.admission.request import UserInfo
from webhook.cli.scenarios.api_server import ApiRequest, ApiServer, ApiServerStore, ObjectKey
from webhook.cli.scenarios.scenario import MAX_PODS, JsonObject, RequestResult
from webhook.objects.apps import Workload

ENDED_PHASES: Final = frozenset({"Succeeded", "Failed"})
SUCCEEDED: Final = "Succeeded"
CONTROLLER_NAMES: Final = {
    "Deployment": "deployment-controller",
    "ReplicaSet": "replicaset-controller",
    "StatefulSet": "statefulset-controller",
    "DaemonSet": "daemon-set-controller",
    "ReplicationController": "replication-controller",
    "Job": "job-controller",
}
_GROUPS: Final = ("system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated")


def create_request(key: ObjectKey) -> ApiRequest:
    """How the controller of a kind asks."""
    name = CONTROLLER_NAMES[key.kind]
    return ApiRequest(UserInfo(f"system:serviceaccount:kube-system:{name}", _GROUPS), key.namespace)


def create_owner_reference(key: ObjectKey, owner: JsonObject) -> JsonObject:
    """What an owned object says of its owner."""
    uid = owner["metadata"]["uid"]
    return {"apiVersion": owner["apiVersion"], "kind": key.kind, "name": key.name, "uid": uid, "controller": True}


def find_owner(body: JsonObject) -> JsonObject | None:
    """The controller that owns an object, where one of ours does."""
    references = body["metadata"].get("ownerReferences") or ()
    return next(
        (
            reference
            for reference in references
            if reference.get("controller") and str(reference.get("kind")) in CONTROLLER_NAMES
        ),
        None,
    )


def is_owned(pod: JsonObject, workload: JsonObject) -> bool:
    """Whether this very workload owns a pod."""
    owner_reference = find_owner(pod)
    return owner_reference is not None and owner_reference.get("uid") == workload["metadata"]["uid"]


def get_phase(pod: JsonObject) -> str:
    """The phase of a pod; empty while nobody has said one."""
    return str((pod.get("status") or {}).get("phase", ""))


_POD_OWNER_KINDS: Final = tuple(kind for kind in CONTROLLER_NAMES if kind != "Deployment")


@dataclass(frozen=True, slots=True)
class ControllerResult:
    """What controllers came to: events on workloads, pods made, and pods still missing because they were refused."""

    events: tuple[str, ...] = ()
    pods_created: int = 0
    pods_missing: int = 0

    def __add__(self, other: "ControllerResult") -> "ControllerResult":
        """One after the other: what is missing is so at the end."""
        events = tuple(dict.fromkeys((*self.events, *other.events)))
        return ControllerResult(events, self.pods_created + other.pods_created, other.pods_missing)


class WorkloadControllers:
    """Bring what is stored to what workloads ask for."""

    def __init__(self, api: ApiServer, store: ApiServerStore) -> None:
        self._api = api
        self._store = store
        self._rejected_at: dict[ObjectKey, tuple[object, int]] = {}
        self.pods_missing = 0

    def reconcile(self, *, retry: bool = False) -> ControllerResult:
        """Let every controller look once at everything of its kind.

        What was refused, and has not changed since, is tried only `again`, as after a while.
        """
        if retry:
            self._rejected_at.clear()
        self._collect_garbage()
        events: list[str] = []
        for key, body in list(self._store.list_objects("Deployment")):
            events += self._roll_out(key, body)
        created = missing = 0
        for kind in _POD_OWNER_KINDS:
            for key, body in list(self._store.list_objects(kind)):
                result = self._replicate(key, body)
                events += result.events
                created, missing = created + result.pods_created, missing + result.pods_missing
        self.pods_missing = missing
        return ControllerResult(tuple(events), created, missing)

    def _collect_garbage(self) -> None:
        """Take away what nobody owns any more, as the garbage collector does."""
        for kind in ("ReplicaSet", "Pod"):
            owners = {
                str(body["metadata"]["uid"])
                for owner_kind in CONTROLLER_NAMES
                for _, body in self._store.list_objects(owner_kind)
            }
            for key, body in list(self._store.list_objects(kind)):
                owner_reference = find_owner(body)
                if owner_reference is not None and str(owner_reference.get("uid")) not in owners:
                    self._store.remove(key)

    def _roll_out(self, key: ObjectKey, deployment: JsonObject) -> Iterator[str]:
        """Give a Deployment its ReplicaSet, of as many replicas."""
        desired = _get_replicas(key.kind, deployment)
        replica_set_key = ObjectKey("ReplicaSet", key.namespace, key.name)
        replica_set = self._store.find(replica_set_key)
        if replica_set is not None and (
            not is_owned(replica_set, deployment) or _get_spec(replica_set).get("replicas") == desired
        ):
            return
        spec = {**_get_spec(replica_set or deployment), "replicas": desired}
        replica_set_spec = {name: spec[name] for name in ("replicas", "selector", "template") if name in spec}
        metadata = {"name": key.name, "ownerReferences": [create_owner_reference(key, deployment)]}
        body = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": replica_set_spec}
        api_request = create_request(key)
        result = self._api.create(body, api_request) if replica_set is None else self._api.update(body, api_request)
        if not result.allowed:
            yield _format_event(key, "ReplicaSetCreateError", result)

    def _replicate(self, key: ObjectKey, workload: JsonObject) -> ControllerResult:
        """Make the pods that a workload lacks, and delete those that it has too many of."""
        pods = [(name, pod) for name, pod in self._store.list_objects("Pod") if is_owned(pod, workload)]
        active = [name for name, pod in pods if get_phase(pod) not in ENDED_PHASES]
        if key.kind == "DaemonSet":
            desired = len(self._list_eligible_nodes(workload))
        else:
            desired = min(self._count_desired_pods(key, workload, [pod for _, pod in pods]), MAX_PODS)
        for name in reversed(active[desired:]):
            self._store.remove(name)
        return self._create_pods(key, workload, desired - len(active), len(active))

    def _create_pods(self, key: ObjectKey, workload: JsonObject, missing: int, active_count: int) -> ControllerResult:
        """Create pods until one is refused: the others are as it is, and would be refused as well."""
        version = workload["metadata"]["resourceVersion"]
        if self._rejected_at.get(key) == (version, active_count):
            return ControllerResult(pods_missing=max(missing, 0))
        for created in range(missing):
            result = self._api.create(self._build_pod(key, workload), create_request(key))
            if not result.allowed:
                self._rejected_at[key] = (version, active_count + created)
                return ControllerResult((_format_event(key, "FailedCreate", result),), created, missing - created)
        return ControllerResult(pods_created=max(missing, 0))

    def _count_desired_pods(self, key: ObjectKey, workload: JsonObject, pods: list[JsonObject]) -> int:
        count = _get_replicas(key.kind, workload)
        if key.kind != "Job":
            return count
        spec = _get_spec(workload)
        completions: int | None = spec.get("completions")
        succeeded = sum(get_phase(pod) == SUCCEEDED for pod in pods)
        if completions is None:
            return 0 if succeeded and spec.get("parallelism") is not None else max(count - succeeded, 0)
        return max(min(count, completions - succeeded), 0)

    def _list_eligible_nodes(self, workload: JsonObject) -> list[ObjectKey]:
        """The nodes that a DaemonSet's pods may run on, by its node selector."""
        node_selector = (_get_template(workload).get("spec") or {}).get("nodeSelector") or {}
        return [
            key
            for key, node in self._store.list_objects("Node")
            if node_selector.items() <= (node["metadata"].get("labels") or {}).items()
        ]

    def _build_pod(self, key: ObjectKey, workload: JsonObject) -> JsonObject:
        template = _get_template(workload)
        metadata = {
            **(template.get("metadata") or {}),
            "name": self._choose_name(key),
            "namespace": key.namespace,
            "ownerReferences": [create_owner_reference(key, workload)],
        }
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template.get("spec") or {}}

    def _choose_name(self, key: ObjectKey) -> str:
        """The lowest number that is free; a StatefulSet counts from 0."""
        number = int(key.kind != "StatefulSet")
        while ObjectKey("Pod", key.namespace, f"{key.name}-{number}") in self._store:
            number += 1
        return f"{key.name}-{number}"


def _get_replicas(kind: str, body: JsonObject) -> int:
    group = str(body["apiVersion"]).rpartition("/")[0]
    decoded = REVIEW_TARGETS[group, kind].decode(msgspec.json.encode(body))
    parsed_replicas = (
        count_replicas(kind, decoded)
        if isinstance(decoded, Workload) and decoded.spec and decoded.spec.template
        else None
    )
    return parsed_replicas.count if parsed_replicas else 0


def _get_spec(body: JsonObject) -> JsonObject:
    spec: JsonObject = body.get("spec") or {}
    return spec


def _get_template(workload: JsonObject) -> JsonObject:
    template: JsonObject = _get_spec(workload).get("template") or {}
    return template


def _format_event(key: ObjectKey, reason: str, result: RequestResult) -> str:
    return f"{key}: {reason}: {result.message}"


def add_controller_result(request_result: RequestResult, controller_result: ControllerResult) -> RequestResult:
    """What came of a step, with what controllers made of it."""
    return replace(
        request_result,
        events=controller_result.events,
        pods_created=controller_result.pods_created,
        pods_missing=controller_result.pods_missing,
    )
