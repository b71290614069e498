"""Simulated controllers: they create the pods of objects, retry rejected creates, roll Deployments, collect garbage.

For the kinds of Kubernetes they follow kube-controller-manager v1.36 except for names (`NAME-1`, `NAME-2`, …, the
lowest free number first) and rollouts: Deployments roll, but after a change of the template of another workload the
existing pods stay. For the kinds of other projects one controller stands for many, and does what they have in common:
as many pods as the object says, named OBJECT-SET-1, OBJECT-SET-2, …; a pod that succeeded is not replaced.

A Deployment has a ReplicaSet for each revision of the template (rolling.go, recreate.go of pkg/controller/deployment),
except that a pod is available once it is stored. The ReplicaSet of the first revision has the name of the Deployment,
that of the second one `NAME-r2`.

Claims for devices are made from the templates of pods, and deleted, as by pkg/controller/resourceclaim/controller.go of
Kubernetes v1.37 except for names (`POD-NAME-1`, …); no scheduler allocates a device. The feature gates for claims of
groups are taken as on: the claims that `spec.scheduling` of a Job names are made once for the Job. PodGroups are not
simulated, so that pods that name one themselves get no claims.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import msgspec

from tallygate.accounting.names import is_overcommit_allowed
from tallygate.admission.kinds import BUILT_IN_TARGETS, ReviewTarget, ReviewTargets
from tallygate.admission.pod_view import PodView, RolloutSteps, read_template, resolve_rolling_update
from tallygate.admission.request import UserInfo
from tallygate.cli.scenarios.api_server import ApiRequest, ApiServer, ApiServerStore, ObjectKey
from tallygate.cli.scenarios.scenario import MAX_PODS, JsonObject, RequestResult
from tallygate.objects.apps import Workload, WorkloadSpec

_ENDED_PHASES: Final = frozenset({"Succeeded", "Failed"})
_SUCCEEDED: Final = "Succeeded"
_CONTROLLER_NAMES: Final = {
    "Deployment": "deployment-controller",
    "ReplicaSet": "replicaset-controller",
    "StatefulSet": "statefulset-controller",
    "DaemonSet": "daemon-set-controller",
    "ReplicationController": "replication-controller",
    "Job": "job-controller",
}
_DEPLOYMENT: Final = "Deployment"
_REPLICA_SET: Final = "ReplicaSet"
_REVISION_LABEL: Final = "pod-template-hash"
_NO_LABEL: Final = re.compile(r"[^a-z0-9]+")
_TEMPLATE_FIELDS: Final = frozenset({"template", "spec"})
_MAIN_CONTAINER: Final = "main"
_POD_CLAIM_ANNOTATION: Final = "resource.kubernetes.io/pod-claim-name"
_OWNER_KINDS: Final = frozenset({"Pod", "PodGroup"})
_DECODER: Final = msgspec.json.Decoder(Workload)


def _create_request(key: ObjectKey) -> ApiRequest:
    """Return a request by the controller of a kind; one of another project has a namespace of its own."""
    kind = key.kind.partition(".")[0].lower()
    own = (f"{kind}-system", f"{kind}-controller")
    return _create_controller_request(
        key.namespace, *(("kube-system", _CONTROLLER_NAMES[key.kind]) if key.kind in _CONTROLLER_NAMES else own)
    )


def _create_controller_request(namespace: str, home: str, name: str) -> ApiRequest:
    """Return a request by a controller with a service account in its home."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{home}", "system:authenticated")
    return ApiRequest(UserInfo(f"system:serviceaccount:{home}:{name}", groups), namespace)


def _create_owner_reference(owner: JsonObject) -> JsonObject:
    metadata = owner["metadata"]
    identity = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": metadata["name"]}
    return {**identity, "uid": metadata["uid"], "controller": True}


def _find_controller(body: JsonObject) -> JsonObject:
    """Return the owner reference of the controller of an object; an empty one if it has none."""
    references = body["metadata"].get("ownerReferences") or ()
    return next((reference for reference in references if reference.get("controller")), {})


def _has_ended(pod: JsonObject) -> bool:
    """Return whether a pod has succeeded or failed."""
    return _get_phase(pod) in _ENDED_PHASES


def _get_phase(pod: JsonObject) -> str:
    return str((pod.get("status") or {}).get("phase", ""))


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

    def add_to(self, request_result: RequestResult) -> RequestResult:
        return replace(
            request_result, events=self.events, pods_created=self.pods_created, pods_missing=self.pods_missing
        )


class _PodSet(NamedTuple):
    """The pods that the controller of an object makes of one template: `prefix` is the first part of their names.

    A set that `is_only` has all pods of the object, whatever their names.
    """

    key: ObjectKey
    body: JsonObject
    view: PodView
    prefix: str
    is_only: bool

    def owns(self, name: str, pod: JsonObject) -> bool:
        number = name.removeprefix(self.prefix)
        is_named = self.is_only or (number != name and number.isdigit())
        return is_named and _find_controller(pod).get("uid") == self.body["metadata"]["uid"]


class ReplicationController:
    """The controllers that adapt the stored pods to the objects that make them, and ReplicaSets to Deployments.

    `count_daemon_pods` returns the number of pods of a DaemonSet by the nodes.
    """

    def __init__(
        self,
        api: ApiServer,
        store: ApiServerStore,
        targets: ReviewTargets,
        count_daemon_pods: Callable[[JsonObject], int],
    ) -> None:
        self._count_daemon_pods = count_daemon_pods
        self._api = api
        self._store = store
        built_in = {kind: target for (_, kind), target in BUILT_IN_TARGETS.items()}
        self._targets: dict[str, ReviewTarget] = {kind: built_in[kind] for kind in _CONTROLLER_NAMES}
        for (group, kind), target in targets.items():
            if target.definition is not None:
                self._targets[f"{kind}.{group}"] = target
        self._rejected_at: dict[tuple[ObjectKey, str], tuple[object, int]] = {}
        self._deployments = _DeploymentController(api, store)

    def reconcile(self, *, retry: bool = False) -> ControllerResult:
        """Run every controller once for every object, and while a Deployment rolls, until nothing changes.

        A rejected create is repeated only if the object has changed or `retry` is set.
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
        result, missing = ControllerResult(tuple(self._sync_deployments())), 0
        for kind, target in self._targets.items():
            for key, body in list(self._store.list_objects(kind)) if kind != _DEPLOYMENT else ():
                for pod_set in _list_pod_sets(key, body, target):
                    replicated = self._replicate(pod_set)
                    missing += replicated.pods_missing
                    result += replicated
        return ControllerResult(result.events, result.pods_created, missing)

    def _collect_garbage(self) -> None:
        """Delete objects whose owner is deleted, as the garbage collector does."""
        for kind in (_REPLICA_SET, "Pod"):
            owners = {body["metadata"]["uid"] for kind in self._targets for _, body in self._store.list_objects(kind)}
            for key, body in list(self._store.list_objects(kind)):
                owner = _find_controller(body)
                if owner and _name_kind(owner) in self._targets and str(owner.get("uid")) not in owners:
                    self._store.remove(key)

    def _sync_deployments(self) -> Iterator[str]:
        """Take one step of every Deployment, and yield the events of its rejections."""
        pods = (pod for _, pod in self._store.list_objects("Pod") if not _has_ended(pod))
        available = Counter(str(_find_controller(pod).get("uid")) for pod in pods)
        for key, body in list(self._store.list_objects(_DEPLOYMENT)):
            for result in self._deployments.sync(key, body, available):
                yield _format_event(key, "ReplicaSetCreateError", result)

    def _has_rolled(self) -> bool:
        return any(self._deployments.has_rolled(body) for _, body in self._store.list_objects(_DEPLOYMENT))

    def _replicate(self, pod_set: _PodSet) -> ControllerResult:
        """Create the missing pods of a set and delete surplus ones."""
        pods = [(key, pod) for key, pod in self._store.list_objects("Pod") if pod_set.owns(key.name, pod)]
        active = [key for key, pod in pods if not _has_ended(pod)]
        desired = self._count_desired(pod_set, sum(_get_phase(pod) == _SUCCEEDED for _, pod in pods))
        for surplus in reversed(active[desired:]):
            self._store.remove(surplus)
        return self._create_pods(pod_set, desired - len(active), len(active))

    def _count_desired(self, pod_set: _PodSet, succeeded: int) -> int:
        """Return the number of pods to run, besides those that succeeded where these are not replaced."""
        kind, replicas = pod_set.key.kind, pod_set.view.replicas
        count = replicas.count if replicas is not None else 0
        count = min(self._count_daemon_pods(pod_set.body) if kind == "DaemonSet" else count, MAX_PODS)
        if kind == "Job":
            spec = _get_spec(pod_set.body)
            if (completions := spec.get("completions")) is not None:
                return max(min(count, int(completions) - succeeded), 0)
            return 0 if succeeded and spec.get("parallelism") is not None else max(count - succeeded, 0)
        return count if kind in _CONTROLLER_NAMES else max(count - succeeded, 0)

    def _create_pods(self, pod_set: _PodSet, missing: int, active_count: int) -> ControllerResult:
        """Create pods until one is rejected: the others are equal to it and would be rejected too."""
        place, version = (pod_set.key, pod_set.prefix), pod_set.body["metadata"]["resourceVersion"]
        if self._rejected_at.get(place) == (version, active_count):
            return ControllerResult(pods_missing=max(missing, 0))
        for created in range(missing):
            result = self._api.create(self._build_pod(pod_set), _create_request(pod_set.key))
            if not result.allowed:
                self._rejected_at[place] = (version, active_count + created)
                event = _format_event(pod_set.key, "FailedCreate", result)
                return ControllerResult((event,), created, missing - created)
        return ControllerResult(pods_created=max(missing, 0))

    def _build_pod(self, pod_set: _PodSet) -> JsonObject:
        template: JsonObject = msgspec.json.decode(read_template(pod_set.view, msgspec.json.encode(pod_set.body)))
        number = int(pod_set.key.kind != "StatefulSet")  # the lowest free one; a StatefulSet counts from 0
        while ObjectKey("Pod", pod_set.key.namespace, f"{pod_set.prefix}{number}") in self._store:
            number += 1
        metadata = {
            **(template.get("metadata") or {}),
            "name": f"{pod_set.prefix}{number}",
            "namespace": pod_set.key.namespace,
            "ownerReferences": [_create_owner_reference(pod_set.body)],
        }
        spec = dict(template.get("spec") or {})
        if pod_set.key.kind not in _CONTROLLER_NAMES:
            for container in spec.get("containers") or ():
                container["name"] = container.get("name") or _MAIN_CONTAINER
            if pod_set.view.is_partial:
                spec["containers"] = [_complete(container, spec) for container in spec.get("containers") or ()]
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _name_kind(reference: JsonObject) -> str:
    """Return the kind of an owner as the store names it: other projects have kinds of the same names."""
    group, kind = str(reference.get("apiVersion")).rpartition("/")[0], str(reference.get("kind"))
    return kind if (group, kind) in BUILT_IN_TARGETS else f"{kind}.{group}"


def _complete(container: JsonObject, spec: JsonObject) -> JsonObject:
    """Return a container of a template that is a part, with the limits that its pods have by another object.

    Claims that the part does not name are left out: nothing is known of them.
    """
    resources: JsonObject = container.get("resources") or {}
    known = {claim.get("name") for claim in spec.get("resourceClaims") or ()}
    limits = dict(resources.get("limits") or {})
    for name, amount in (resources.get("requests") or {}).items():
        if not is_overcommit_allowed(name):
            limits.setdefault(name, amount)
    claims = [resource for resource in resources.get("claims") or () if resource.get("name") in known]
    return {**container, "resources": {**resources, "limits": limits, "claims": claims}}


def _list_pod_sets(key: ObjectKey, body: JsonObject, target: ReviewTarget) -> Iterator[_PodSet]:
    """Yield the pod sets of an object, which are none if another object controls one of another project.

    Of several sets each is named by its noun, or, if another one has the same, by the item of the list or mapping that
    it is in. Where the object says which pods start first, those that may run at other times are none.
    """
    views = [*target.list_pods(target.decode(msgspec.json.encode(body)))]
    if target.definition is None:
        yield from (_PodSet(key, body, view, f"{key.name}-", is_only=True) for view in views)
        return
    if not key.namespace or _find_controller(body):
        return
    if any(view.replicas is not None and view.replicas.is_first for view in views):
        views = [
            view for view in views if view.replicas is None or view.replicas.is_first or not view.replicas.is_separate
        ]
    nouns = [view.replicas.noun if view.replicas is not None else "" for view in views]
    taken: set[str] = set()
    for noun, view in zip(nouns, views, strict=True):
        text = noun if nouns.count(noun) == 1 else _name_item(view)
        name = f"{key.name}-{_NO_LABEL.sub('-', text.lower()).strip('-') or 'pods'}"
        numbered = (name, *(f"{name}-{number}" for number in range(2, len(taken) + 3)))
        unique = next(candidate for candidate in numbered if candidate not in taken)
        taken.add(unique)
        yield _PodSet(key, body, view, f"{unique}-", is_only=False)


def _name_item(view: PodView) -> str:
    parts = [part for part in view.identity.split("/") if part not in _TEMPLATE_FIELDS]
    return parts[-1] if parts else ""


def _get_spec(body: JsonObject) -> JsonObject:
    spec: JsonObject = body.get("spec") or {}
    return spec


def _format_event(key: ObjectKey, reason: str, result: RequestResult) -> str:
    return f"{key}: {reason}: {result.message}"


class _OwnedReplicaSet(NamedTuple):
    """A ReplicaSet of a Deployment: its key, its object, and the number of its pods that have not ended."""

    key: ObjectKey
    body: JsonObject
    available: int

    @property
    def desired(self) -> int:
        return _count_desired(_read_spec(self.body))

    def is_of(self, revision: str) -> bool:
        labels = self.body["metadata"].get("labels") or {}
        return bool(labels.get(_REVISION_LABEL) == revision)


class _DeploymentController:
    """The controller that creates, scales and replaces the ReplicaSets of Deployments."""

    def __init__(self, api: ApiServer, store: ApiServerStore) -> None:
        self._api = api
        self._store = store

    def sync(
        self, key: ObjectKey, deployment: JsonObject, available_by_owner: Mapping[str, int]
    ) -> list[RequestResult]:
        """Take one step of a Deployment, and return the rejections of it.

        `available_by_owner` has the number of pods that have not ended, by the UID of their ReplicaSet.
        """
        replica_sets = self._list_revisions(deployment, available_by_owner)
        revision = _hash_template(deployment)
        own = [owned for owned in replica_sets if owned.is_of(revision)]
        old = [owned for owned in replica_sets if not owned.is_of(revision) and (owned.desired or owned.available)]
        desired, update = _read_strategy(deployment)
        if not own:
            return self._create(key, deployment, revision, _count_new(desired, 0, old, update))
        (new,) = own
        rejected = self._scale(key, new, _count_new(desired, new.desired, old, update))
        left = max(_count_removable(desired, new, old, update), 0)
        for owned in old:
            fewer = min(left, owned.desired)
            left -= fewer
            rejected += self._scale(key, owned, owned.desired - fewer)
        return rejected

    def has_rolled(self, deployment: JsonObject) -> bool:
        """Return whether a Deployment has had several revisions, so that it may take several steps."""
        return len(self._list_revisions(deployment, {})) > 1

    def _list_revisions(self, deployment: JsonObject, available_by_owner: Mapping[str, int]) -> list[_OwnedReplicaSet]:
        uid = deployment["metadata"]["uid"]
        return [
            _OwnedReplicaSet(key, body, available_by_owner.get(body["metadata"]["uid"], 0))
            for key, body in self._store.list_objects(_REPLICA_SET)
            if _find_controller(body).get("uid") == uid
        ]

    def _create(self, key: ObjectKey, deployment: JsonObject, revision: str, replicas: int) -> list[RequestResult]:
        name, number = key.name, 1
        while ObjectKey(_REPLICA_SET, key.namespace, name) in self._store:
            number += 1
            name = f"{key.name}-r{number}"
        spec = {**_get_spec(deployment), "replicas": replicas}
        body = {
            "apiVersion": "apps/v1",
            "kind": _REPLICA_SET,
            "metadata": {
                "name": name,
                "labels": {_REVISION_LABEL: revision},
                "ownerReferences": [_create_owner_reference(deployment)],
            },
            "spec": {field: spec[field] for field in ("replicas", "selector", "template") if field in spec},
        }
        result = self._api.create(body, _create_request(key))
        return [] if result.allowed else [result]

    def _scale(self, key: ObjectKey, owned: _OwnedReplicaSet, replicas: int) -> list[RequestResult]:
        if owned.desired == replicas:
            return []
        body = {**owned.body, "spec": {**_get_spec(owned.body), "replicas": replicas}}
        result = self._api.update(body, _create_request(key))
        return [] if result.allowed else [result]


def _hash_template(deployment: JsonObject) -> str:
    template = _get_spec(deployment).get("template") or {}
    return hashlib.sha256(msgspec.json.encode(template, order="sorted")).hexdigest()[:10]


def _read_spec(body: JsonObject) -> WorkloadSpec | None:
    return _DECODER.decode(msgspec.json.encode(body)).spec


def _count_desired(spec: WorkloadSpec | None) -> int:
    if spec is None:
        return 0
    return 1 if spec.replicas is None else max(spec.replicas, 0)


def _read_strategy(deployment: JsonObject) -> tuple[int, RolloutSteps | None]:
    """Return the number of pods, and the surge and unavailable pods of a rolling update; None to recreate all."""
    spec = _read_spec(deployment)
    desired = _count_desired(spec)
    return desired, None if spec is None else resolve_rolling_update(spec, desired)


def _count_new(desired: int, current: int, old: list[_OwnedReplicaSet], update: RolloutSteps | None) -> int:
    """Return the number of pods of the new revision (NewRSNewReplicas)."""
    if not old or current >= desired:
        return desired
    if update is None:
        return current if any(owned.available for owned in old) else desired
    room = desired + update.surge - current - sum(owned.desired for owned in old)
    return min(current + max(room, 0), desired)


def _count_removable(
    desired: int, new: _OwnedReplicaSet, old: list[_OwnedReplicaSet], update: RolloutSteps | None
) -> int:
    """Return the number of old pods that may end now (reconcileOldReplicaSets)."""
    if update is None:
        return sum(owned.desired for owned in old)
    least = desired - update.unavailable
    total = new.desired + sum(owned.desired for owned in old)
    missing = new.desired - new.available
    waiting = sum(max(owned.desired - owned.available, 0) for owned in old)
    available = new.available + sum(owned.available for owned in old)
    return min(total - least - missing, max(available - least, 0) + waiting)


class ClaimController:
    """The controller that adapts the claims to the stored pods."""

    def __init__(self, api: ApiServer, store: ApiServerStore) -> None:
        self._api = api
        self._store = store
        self._rejected: set[tuple[object, str]] = set()

    def reconcile(self, *, retry: bool = False) -> tuple[str, ...]:
        """Create missing claims, delete those of pods that ended or were deleted, and return the events of pods.

        A rejected create is repeated only if `retry` is set.
        """
        if retry:
            self._rejected.clear()
        self._delete_claims()
        events: list[str] = []
        for key, pod in list(self._store.list_objects("Pod")):
            if not _has_ended(pod):
                events += self._create_claims(key, pod)
        return tuple(events)

    def _delete_claims(self) -> None:
        owners = {str(pod["metadata"]["uid"]) for _, pod in self._store.list_objects("Pod") if not _has_ended(pod)}
        owners |= {create_group(job)["metadata"]["uid"] for _, job in self._store.list_objects("Job")}
        for key, claim in list(self._store.list_objects("ResourceClaim")):
            if (uid := _get_owner_uid(claim)) and uid not in owners:
                self._store.remove(key)

    def _create_claims(self, key: ObjectKey, pod: JsonObject) -> Iterator[str]:
        spec = pod.get("spec") or {}
        for entry in spec.get("resourceClaims") or ():
            template, name = entry.get("resourceClaimTemplateName"), str(entry.get("name") or "")
            owner = self._find_group(pod, entry) or pod
            uid = owner["metadata"]["uid"]
            if not template or self._has_claim(uid, name) or (uid, name) in self._rejected:
                continue
            stored = self._store.find(ObjectKey("ResourceClaimTemplate", key.namespace, str(template)))
            if spec.get("schedulingGroup"):
                message = "the claims of a PodGroup are not simulated"
            elif stored is None:
                message = f'resourceclaimtemplate "{template}" not found'
            else:
                body = _build_claim(owner, key.namespace, name, stored)
                request = _create_controller_request(key.namespace, "kube-system", "resource-claim-controller")
                message = self._api.create(body, request).message
            if message:
                self._rejected.add((uid, name))
                yield f"{key}: FailedResourceClaimCreation: PodResourceClaim {name}: {message}"

    def _find_group(self, pod: JsonObject, entry: JsonObject) -> JsonObject | None:
        """Return the PodGroup of the Job of a pod if the group has this claim: its pods share it then."""
        owners = {str(reference.get("uid")) for reference in pod["metadata"].get("ownerReferences") or ()}
        for _, job in self._store.list_objects("Job"):
            spec = job.get("spec") or {}
            if job["metadata"]["uid"] not in owners:
                continue
            has_group = not (job["metadata"].get("ownerReferences") or (pod.get("spec") or {}).get("schedulingGroup"))
            if has_group and entry in ((spec.get("scheduling") or {}).get("resourceClaims") or ()):
                return create_group(job)
        return None

    def _has_claim(self, uid: str, name: str) -> bool:
        return any(
            _get_owner_uid(claim) == uid
            and (claim["metadata"].get("annotations") or {}).get(_POD_CLAIM_ANNOTATION) == name
            for _, claim in self._store.list_objects("ResourceClaim")
        )


def create_group(job: JsonObject) -> JsonObject:
    """Return the PodGroup that the Job controller makes for a Job, under the name of the Job."""
    owners = [_create_owner_reference(job)]
    metadata = {"name": job["metadata"]["name"], "uid": f"{job['metadata']['uid']}-group", "ownerReferences": owners}
    return {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": metadata}


def _build_claim(owner: JsonObject, namespace: str, name: str, template: JsonObject) -> JsonObject:
    spec = template.get("spec") or {}
    labels, annotations = ((spec.get("metadata") or {}).get(field) or {} for field in ("labels", "annotations"))
    metadata = {
        "generateName": f"{owner['metadata']['name']}-{name}-",
        "namespace": namespace,
        "labels": labels,
        "annotations": {**annotations, _POD_CLAIM_ANNOTATION: name},
        "ownerReferences": [_create_owner_reference(owner)],
    }
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": metadata,
        "spec": spec.get("spec") or {},
    }


def _get_owner_uid(claim: JsonObject) -> str:
    """Return the UID of the pod or PodGroup that controls a claim; empty if none does."""
    controller = _find_controller(claim)
    return str(controller.get("uid")) if str(controller.get("kind")) in _OWNER_KINDS else ""
