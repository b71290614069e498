"""A simulated controller of claims for devices: it makes the claims of pods from their templates, and deletes them.

It follows pkg/controller/resourceclaim/controller.go of Kubernetes v1.37 except for names (`POD-NAME-1`, …), and waits
for no device: no scheduler allocates one.

The feature gates for claims of groups are taken as on: the claims that `spec.scheduling` of a Job names are made once
for the Job. PodGroups are not simulated, so that pods that name one themselves get no claims.
"""

from collections.abc import Iterator
from typing import Final

from tallygate.cli.scenarios.api_server import ApiServer, ApiServerStore, ObjectKey
from tallygate.cli.scenarios.controllers import (
    create_controller_request,
    create_owner_reference,
    find_controller,
    has_ended,
)
from tallygate.cli.scenarios.scenario import JsonObject

_POD_CLAIM_ANNOTATION: Final = "resource.kubernetes.io/pod-claim-name"
_OWNER_KINDS: Final = frozenset({"Pod", "PodGroup"})


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
            if not has_ended(pod):
                events += self._create_claims(key, pod)
        return tuple(events)

    def _delete_claims(self) -> None:
        owners = {str(pod["metadata"]["uid"]) for _, pod in self._store.list_objects("Pod") if not has_ended(pod)}
        owners |= {_create_group(job)["metadata"]["uid"] for _, job in self._store.list_objects("Job")}
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
                request = create_controller_request(key.namespace, "kube-system", "resource-claim-controller")
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
                return _create_group(job)
        return None

    def _has_claim(self, uid: str, name: str) -> bool:
        return any(
            _get_owner_uid(claim) == uid
            and (claim["metadata"].get("annotations") or {}).get(_POD_CLAIM_ANNOTATION) == name
            for _, claim in self._store.list_objects("ResourceClaim")
        )


def _create_group(job: JsonObject) -> JsonObject:
    """Return the PodGroup that the Job controller makes for a Job, under the name of the Job."""
    metadata = {"name": job["metadata"]["name"], "uid": f"{job['metadata']['uid']}-group"}
    return {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": metadata}


def _build_claim(owner: JsonObject, namespace: str, name: str, template: JsonObject) -> JsonObject:
    spec = template.get("spec") or {}
    labels, annotations = ((spec.get("metadata") or {}).get(field) or {} for field in ("labels", "annotations"))
    metadata = {
        "generateName": f"{owner['metadata']['name']}-{name}-",
        "namespace": namespace,
        "labels": labels,
        "annotations": {**annotations, _POD_CLAIM_ANNOTATION: name},
        "ownerReferences": [create_owner_reference(owner)],
    }
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": metadata,
        "spec": spec.get("spec") or {},
    }


def _get_owner_uid(claim: JsonObject) -> str:
    """Return the UID of the pod or PodGroup that controls a claim; empty if none does."""
    controller = find_controller(claim)
    return str(controller.get("uid")) if str(controller.get("kind")) in _OWNER_KINDS else ""
