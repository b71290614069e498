"""A simulated Deployment controller: a ReplicaSet for each revision of the template, and rolling updates.

It follows pkg/controller/deployment of kube-controller-manager v1.36 (rolling.go, recreate.go) except for names, and
for readiness: a pod is available once it is stored. The ReplicaSet of the first revision has the name of the
Deployment, that of the second one `NAME-r2`.
"""

import hashlib
from typing import Final

import msgspec

from tallygate.admission.pod_view import RolloutSteps, resolve_rolling_update
from tallygate.admission.request import UserInfo
from tallygate.cli.scenarios.api_server import ApiRequest, ApiServer, ApiServerStore, ObjectKey
from tallygate.cli.scenarios.scenario import JsonObject, RequestResult
from tallygate.objects.apps import Workload, WorkloadSpec

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


def _get_spec(body: JsonObject) -> JsonObject:
    spec: JsonObject = body.get("spec") or {}
    return spec


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
