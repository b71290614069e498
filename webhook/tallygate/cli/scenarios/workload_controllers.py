"""Simulated workload controllers: they create the pods of workloads, retry rejected creates, and collect garbage.

They follow kube-controller-manager v1.36 except for names (`NAME-1`, `NAME-2`, …, the lowest free number first) and
rollouts: Deployments roll, but after a change of the template of another workload the existing pods stay.

A simulated Deployment controller: a ReplicaSet for each revision of the template, and rolling updates.

It follows pkg/controller/deployment of kube-controller-manager v1.36 (rolling.go, recreate.go) except for names, and
for readiness: a pod is available once it is stored. The ReplicaSet of the first revision has the name of the
Deployment, that of the second one `NAME-r2`.
"""

import hashlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from tallygate.admission.kinds import BUILT_IN_TARGETS
from tallygate.admission.pod_view import RolloutSteps, resolve_rolling_update
from tallygate.admission.request import UserInfo
from tallygate.cli.scenarios.api_server import ApiRequest, ApiServer, ApiServerStore, ObjectKey
from tallygate.cli.scenarios.scenario import MAX_PODS, JsonObject, RequestResult
from tallygate.objects.apps import Workload, WorkloadSpec

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
    """Return a request by the controller of a kind."""
    name = CONTROLLER_NAMES[key.kind]
    return ApiRequest(UserInfo(f"system:serviceaccount:kube-system:{name}", _GROUPS), key.namespace)


def create_owner_reference(key: ObjectKey, owner: JsonObject) -> JsonObject:
    """Return the owner reference for the objects that an owner controls."""
    uid = owner["metadata"]["uid"]
    return {"apiVersion": owner["apiVersion"], "kind": key.kind, "name": key.name, "uid": uid, "controller": True}


def find_owner(body: JsonObject) -> JsonObject | None:
    """Return the owner reference of the modelled controller of an object; None if it has none."""
    references = body["metadata"].get("ownerReferences") or ()
    return next(
        (reference for reference in references if reference.get("controller") and _is_controller(reference)),
        None,
    )


def _is_controller(reference: JsonObject) -> bool:
    """Return whether an owner is of a kind of Kubernetes: other projects have kinds of the same names."""
    group, kind = str(reference.get("apiVersion")).rpartition("/")[0], str(reference.get("kind"))
    return kind in CONTROLLER_NAMES and (group, kind) in BUILT_IN_TARGETS


def is_owned(pod: JsonObject, workload: JsonObject) -> bool:
    """Return whether this workload, by its uid, owns the pod."""
    owner_reference = find_owner(pod)
    return owner_reference is not None and owner_reference.get("uid") == workload["metadata"]["uid"]


def get_phase(pod: JsonObject) -> str:
    """Return the phase of a pod; an empty string before the phase is set."""
    return str((pod.get("status") or {}).get("phase", ""))


_ANY_DEPLOYMENT: Final = ObjectKey("Deployment", "", "")
_POD_OWNER_KINDS: Final = tuple(kind for kind in CONTROLLER_NAMES if kind != "Deployment")


@dataclass(frozen=True, slots=True)
class ControllerResult:
    """The result of the controllers: events on workloads, created pods, and missing pods of rejected creates."""

    events: tuple[str, ...] = ()
    pods_created: int = 0
    pods_missing: int = 0

    def __add__(self, other: "ControllerResult") -> "ControllerResult":
        """Return the sum of two successive results; the missing pods are those of the later one."""
        events = tuple(dict.fromkeys((*self.events, *other.events)))
        return ControllerResult(events, self.pods_created + other.pods_created, other.pods_missing)


class WorkloadControllers:
    """The controllers that adapt the stored objects to the workloads.

    `count_daemon_pods` returns the number of pods of a DaemonSet by the nodes.
    """

    def __init__(self, api: ApiServer, store: ApiServerStore, count_daemon_pods: Callable[[JsonObject], int]) -> None:
        self._count_daemon_pods = count_daemon_pods
        self._api = api
        self._store = store
        self._rejected_at: dict[ObjectKey, tuple[object, int]] = {}
        self._deployments = DeploymentController(api, store, create_request(_ANY_DEPLOYMENT).user)

    def reconcile(self, *, retry: bool = False) -> ControllerResult:
        """Run every controller once for every workload, and while a Deployment rolls, until nothing changes.

        A rejected create is repeated only if the workload has changed or `retry` is set.
        """
        if retry:
            self._rejected_at.clear()
        self._collect_garbage()
        result, revision = self._reconcile_once(), -1
        while self._has_rolled() and self._store.revision != revision:
            revision = self._store.revision
            self._rejected_at.clear()  # old pods may have left room
            result += self._reconcile_once()
        return result

    def _reconcile_once(self) -> ControllerResult:
        events = self._sync_deployments()
        created = missing = 0
        for kind in _POD_OWNER_KINDS:
            for key, body in list(self._store.list_objects(kind)):
                result = self._replicate(key, body)
                events += result.events
                created, missing = created + result.pods_created, missing + result.pods_missing
        return ControllerResult(tuple(events), created, missing)

    def _collect_garbage(self) -> None:
        """Delete objects whose owner is deleted, as the garbage collector does."""
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

    def _sync_deployments(self) -> list[str]:
        """Take one step of every Deployment, and return the events of its rejections."""
        available, events = self._count_available(), list[str]()
        for key, body in list(self._store.list_objects("Deployment")):
            rejected = self._deployments.sync(key, body, available)
            events += [format_event(key, "ReplicaSetCreateError", result) for result in rejected]
        return events

    def _has_rolled(self) -> bool:
        return any(self._deployments.has_rolled(body) for _, body in self._store.list_objects("Deployment"))

    def _count_available(self) -> dict[str, int]:
        """Return the number of pods that have not ended, by the UID of their controller."""
        owners = (find_owner(pod) for _, pod in self._store.list_objects("Pod") if get_phase(pod) not in ENDED_PHASES)
        return Counter(str(owner.get("uid")) for owner in owners if owner is not None)

    def _replicate(self, key: ObjectKey, workload: JsonObject) -> ControllerResult:
        """Create the missing pods of a workload and delete surplus ones."""
        pods = [(name, pod) for name, pod in self._store.list_objects("Pod") if is_owned(pod, workload)]
        active = [name for name, pod in pods if get_phase(pod) not in ENDED_PHASES]
        if key.kind == "DaemonSet":
            desired = min(self._count_daemon_pods(workload), MAX_PODS)
        else:
            desired = min(self._count_desired_pods(key, workload, [pod for _, pod in pods]), MAX_PODS)
        for name in reversed(active[desired:]):
            self._store.remove(name)
        return self._create_pods(key, workload, desired - len(active), len(active))

    def _create_pods(self, key: ObjectKey, workload: JsonObject, missing: int, active_count: int) -> ControllerResult:
        """Create pods until one is rejected: the others are equal to it and would be rejected too."""
        version = workload["metadata"]["resourceVersion"]
        if self._rejected_at.get(key) == (version, active_count):
            return ControllerResult(pods_missing=max(missing, 0))
        for created in range(missing):
            result = self._api.create(self._build_pod(key, workload), create_request(key))
            if not result.allowed:
                self._rejected_at[key] = (version, active_count + created)
                return ControllerResult((format_event(key, "FailedCreate", result),), created, missing - created)
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
        """Return a name with the lowest free number; a StatefulSet counts from 0."""
        number = int(key.kind != "StatefulSet")
        while ObjectKey("Pod", key.namespace, f"{key.name}-{number}") in self._store:
            number += 1
        return f"{key.name}-{number}"


def _get_replicas(kind: str, body: JsonObject) -> int:
    group = str(body["apiVersion"]).rpartition("/")[0]
    target = BUILT_IN_TARGETS[group, kind]
    views = target.list_pods(target.decode(msgspec.json.encode(body)))
    return sum(view.replicas.count for view in views if view.replicas is not None)


def _get_spec(body: JsonObject) -> JsonObject:
    spec: JsonObject = body.get("spec") or {}
    return spec


def _get_template(workload: JsonObject) -> JsonObject:
    template: JsonObject = _get_spec(workload).get("template") or {}
    return template


def format_event(key: ObjectKey, reason: str, result: RequestResult) -> str:
    """Return the event of a rejected create."""
    return f"{key}: {reason}: {result.message}"


def add_controller_result(request_result: RequestResult, controller_result: ControllerResult) -> RequestResult:
    """Return the result of a step with the result of the controllers."""
    return replace(
        request_result,
        events=controller_result.events,
        pods_created=controller_result.pods_created,
        pods_missing=controller_result.pods_missing,
    )


_REVISION_LABEL: Final = "pod-template-hash"
_REPLICA_SET: Final = "ReplicaSet"
_DECODER = msgspec.json.Decoder(Workload)


class OwnedReplicaSet(msgspec.Struct):
    """A ReplicaSet of a Deployment: its key, its object, and the number of its pods that have not ended."""

    key: ObjectKey
    body: JsonObject
    available: int

    @property
    def desired(self) -> int:
        """The number of pods that it should have."""
        return _count_desired(_read_spec(self.body))

    def is_of(self, text: str) -> bool:
        """Return whether it is the revision of the template with this hash."""
        labels = self.body["metadata"].get("labels") or {}
        return bool(labels.get(_REVISION_LABEL) == text)


class DeploymentController:
    """The controller that creates, scales and replaces the ReplicaSets of Deployments, in the name of `user`."""

    def __init__(self, api: ApiServer, store: ApiServerStore, user: UserInfo) -> None:
        self._api = api
        self._store = store
        self._user = user

    def sync(self, key: ObjectKey, deployment: JsonObject, available_by_owner: dict[str, int]) -> list[RequestResult]:
        """Take one step of a Deployment, and return the rejections of it.

        `available_by_owner` has the number of pods that have not ended, by the UID of their ReplicaSet.
        """
        revisions = self._list_revisions(deployment, available_by_owner)
        text = _hash_template(deployment)
        own = [revision for revision in revisions if revision.is_of(text)]
        old = [
            revision for revision in revisions if not revision.is_of(text) and (revision.desired or revision.available)
        ]
        desired, update = _read_strategy(deployment)
        if not own:
            count = _count_new(desired, 0, old, update)
            return self._create(key, deployment, text, count)
        (new,) = own
        rejected = self._scale(new, _count_new(desired, new.desired, old, update))
        left = max(_count_removable(desired, new, old, update), 0)
        for each in old:
            fewer = min(left, each.desired)
            left -= fewer
            rejected += self._scale(each, each.desired - fewer)
        return rejected

    def has_rolled(self, deployment: JsonObject) -> bool:
        """Return whether a Deployment has had several revisions, so that it may take several steps."""
        return len(self._list_revisions(deployment, {})) > 1

    def _list_revisions(self, deployment: JsonObject, available_by_owner: dict[str, int]) -> list[OwnedReplicaSet]:
        uid = deployment["metadata"]["uid"]
        return [
            OwnedReplicaSet(key, body, available_by_owner.get(body["metadata"]["uid"], 0))
            for key, body in self._store.list_objects(_REPLICA_SET)
            if any(owner.get("uid") == uid and owner.get("controller") for owner in _list_owners(body))
        ]

    def _choose_name(self, key: ObjectKey) -> str:
        """Return the name of the next ReplicaSet."""
        name, number = key.name, 1
        while ObjectKey(_REPLICA_SET, key.namespace, name) in self._store:
            number += 1
            name = f"{key.name}-r{number}"
        return name

    def _create(self, key: ObjectKey, deployment: JsonObject, revision: str, replicas: int) -> list[RequestResult]:
        """Create the ReplicaSet of a revision."""
        spec = {**_get_spec(deployment), "replicas": replicas}
        owner = {
            "apiVersion": deployment["apiVersion"],
            "kind": key.kind,
            "name": key.name,
            "uid": deployment["metadata"]["uid"],
            "controller": True,
        }
        body = {
            "apiVersion": "apps/v1",
            "kind": _REPLICA_SET,
            "metadata": {
                "name": self._choose_name(key),
                "labels": {_REVISION_LABEL: revision},
                "ownerReferences": [owner],
            },
            "spec": {each: spec[each] for each in ("replicas", "selector", "template") if each in spec},
        }
        result = self._api.create(body, ApiRequest(self._user, key.namespace))
        return [] if result.allowed else [result]

    def _scale(self, revision: OwnedReplicaSet, replicas: int) -> list[RequestResult]:
        if revision.desired == replicas:
            return []
        body = {**revision.body, "spec": {**_get_spec(revision.body), "replicas": replicas}}
        result = self._api.update(body, ApiRequest(self._user, revision.key.namespace))
        return [] if result.allowed else [result]


def _list_owners(body: JsonObject) -> list[JsonObject]:
    return body["metadata"].get("ownerReferences") or []


def _hash_template(deployment: JsonObject) -> str:
    template = _get_spec(deployment).get("template") or {}
    return hashlib.sha256(msgspec.json.encode(template, order="sorted")).hexdigest()[:10]


def _read_spec(body: JsonObject) -> WorkloadSpec | None:
    return _DECODER.decode(msgspec.json.encode(body)).spec


def _count_desired(spec: WorkloadSpec | None) -> int:
    """Return the number of pods; without a spec none, and 1 by default."""
    if spec is None:
        return 0
    return 1 if spec.replicas is None else max(spec.replicas, 0)


def _read_strategy(deployment: JsonObject) -> tuple[int, RolloutSteps | None]:
    """Return the number of pods, and the surge and unavailable pods of a rolling update; None to recreate all."""
    spec = _read_spec(deployment)
    desired = _count_desired(spec)
    return desired, None if spec is None else resolve_rolling_update(spec, desired)


def _count_new(desired: int, current: int, old: list[OwnedReplicaSet], update: RolloutSteps | None) -> int:
    """Return the number of pods of the new revision (NewRSNewReplicas)."""
    if not old or current >= desired:
        return desired
    if update is None:
        return current if any(replica_set.available for replica_set in old) else desired
    room = desired + update.surge - current - sum(replica_set.desired for replica_set in old)
    return min(current + max(room, 0), desired)


def _count_removable(
    desired: int, new: OwnedReplicaSet, old: list[OwnedReplicaSet], update: RolloutSteps | None
) -> int:
    """Return the number of old pods that may end now (reconcileOldReplicaSets)."""
    if update is None:
        return sum(replica_set.desired for replica_set in old)
    least = desired - update.unavailable
    total = new.desired + sum(replica_set.desired for replica_set in old)
    missing = new.desired - new.available
    waiting = sum(max(replica_set.desired - replica_set.available, 0) for replica_set in old)
    available = new.available + sum(replica_set.available for replica_set in old)
    return min(total - least - missing, max(available - least, 0) + waiting)
