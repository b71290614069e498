"""A simulated controller of claims for devices: it makes the claims of pods from their templates, and deletes them.

It follows pkg/controller/resourceclaim/controller.go of Kubernetes v1.37 except for names (`POD-NAME-1`, …), and waits
for no device: no scheduler allocates one.

The feature gates for claims of groups are taken as on: the claims that `spec.scheduling` of a Job names are made once
for the Job. PodGroups are not simulated, so that pods that name one themselves get no claims.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from tallygate.admission.request import UserInfo
from tallygate.cli.scenarios.api_server import ApiRequest, ApiServer, ApiServerStore, ObjectKey
from tallygate.cli.scenarios.scenario import JsonObject

_ENDED_PHASES: Final = frozenset({"Succeeded", "Failed"})
_POD_CLAIM_ANNOTATION: Final = "resource.kubernetes.io/pod-claim-name"
_USER: Final = UserInfo(
    "system:serviceaccount:kube-system:resource-claim-controller",
    ("system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"),
)


class _Owner(NamedTuple):
    """The owner of a claim, a pod or the PodGroup of a Job."""

    api_version: str
    kind: str
    name: str
    uid: str


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
        owners |= {_create_group(key, job).uid for key, job in self._store.list_objects("Job")}
        for key, claim in list(self._store.list_objects("ResourceClaim")):
            if (uid := _get_owner_uid(claim)) and uid not in owners:
                self._store.remove(key)

    def _create_claims(self, key: ObjectKey, pod: JsonObject) -> Iterator[str]:
        spec = pod.get("spec") or {}
        for entry in spec.get("resourceClaims") or ():
            template, name = entry.get("resourceClaimTemplateName"), str(entry.get("name") or "")
            owner = self._find_group(pod, entry) or _Owner("v1", "Pod", key.name, str(pod["metadata"]["uid"]))
            if not template or self._has_claim(owner, name) or (owner.uid, name) in self._rejected:
                continue
            stored = self._store.find(ObjectKey("ResourceClaimTemplate", key.namespace, str(template)))
            if spec.get("schedulingGroup"):
                message = "the claims of a PodGroup are not simulated"
            elif stored is None:
                message = f'resourceclaimtemplate "{template}" not found'
            else:
                body = _build_claim(owner, key.namespace, name, stored)
                message = self._api.create(body, ApiRequest(_USER, key.namespace)).message
            if message:
                self._rejected.add((owner.uid, name))
                yield f"{key}: FailedResourceClaimCreation: PodResourceClaim {name}: {message}"

    def _find_group(self, pod: JsonObject, entry: JsonObject) -> _Owner | None:
        """Return the PodGroup of the Job of a pod if the group has this claim: its pods share it then."""
        for key, job in self._store.list_objects("Job"):
            spec = job.get("spec") or {}
            if not any(
                each.get("uid") == job["metadata"]["uid"] for each in pod["metadata"].get("ownerReferences") or ()
            ):
                continue
            has_group = not (job["metadata"].get("ownerReferences") or (pod.get("spec") or {}).get("schedulingGroup"))
            if has_group and entry in ((spec.get("scheduling") or {}).get("resourceClaims") or ()):
                return _create_group(key, job)
        return None

    def _has_claim(self, owner: _Owner, name: str) -> bool:
        return any(
            _get_owner_uid(claim) == owner.uid
            and (claim["metadata"].get("annotations") or {}).get(_POD_CLAIM_ANNOTATION) == name
            for _, claim in self._store.list_objects("ResourceClaim")
        )


def _create_group(key: ObjectKey, job: JsonObject) -> _Owner:
    """Return the PodGroup that the Job controller makes for a Job, under the name of the Job."""
    return _Owner("scheduling.k8s.io/v1beta1", "PodGroup", key.name, f"{job['metadata']['uid']}-group")


def _build_claim(owner: _Owner, namespace: str, name: str, template: JsonObject) -> JsonObject:
    spec = template.get("spec") or {}
    labels, annotations = ((spec.get("metadata") or {}).get(field) or {} for field in ("labels", "annotations"))
    reference = {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
    }
    metadata = {
        "generateName": f"{owner.name}-{name}-",
        "namespace": namespace,
        "labels": labels,
        "annotations": {**annotations, _POD_CLAIM_ANNOTATION: name},
        "ownerReferences": [reference],
    }
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": metadata,
        "spec": spec.get("spec") or {},
    }


def _get_owner_uid(claim: JsonObject) -> str:
    """Return the UID of the pod or PodGroup that controls a claim; empty if none does."""
    references = claim["metadata"].get("ownerReferences") or ()
    owned = (
        reference
        for reference in references
        if reference.get("controller") and reference.get("kind") in {"Pod", "PodGroup"}
    )
    return next((str(reference.get("uid")) for reference in owned), "")


def _has_ended(pod: JsonObject) -> bool:
    return (pod.get("status") or {}).get("phase") in _ENDED_PHASES
