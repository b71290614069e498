"""A simulated controller of claims for devices: it makes the claims of pods from their templates, and deletes them.

It follows pkg/controller/resourceclaim/controller.go of Kubernetes v1.37 except for names (`POD-NAME-1`, …), and waits
for no device: no scheduler allocates one.
"""

from collections.abc import Iterator
from typing import Final

from tallygate.webhook.admission.request import UserInfo
from tallygate.webhook.cli.scenarios.api_server import ApiRequest, ApiServer, ApiServerStore, ObjectKey
from tallygate.webhook.cli.scenarios.scenario import JsonObject

_ENDED_PHASES: Final = frozenset({"Succeeded", "Failed"})
_POD_CLAIM_ANNOTATION: Final = "resource.kubernetes.io/pod-claim-name"
_USER: Final = UserInfo(
    "system:serviceaccount:kube-system:resource-claim-controller",
    ("system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"),
)


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
        for key, claim in list(self._store.list_objects("ResourceClaim")):
            if (uid := _get_owner_uid(claim)) and uid not in owners:
                self._store.remove(key)

    def _create_claims(self, key: ObjectKey, pod: JsonObject) -> Iterator[str]:
        for entry in (pod.get("spec") or {}).get("resourceClaims") or ():
            template, name = entry.get("resourceClaimTemplateName"), str(entry.get("name") or "")
            if not template or self._has_claim(pod, name) or (pod["metadata"]["uid"], name) in self._rejected:
                continue
            stored = self._store.find(ObjectKey("ResourceClaimTemplate", key.namespace, str(template)))
            if stored is None:
                message = f'resourceclaimtemplate "{template}" not found'
            else:
                body = _build_claim(key, pod, name, stored)
                message = self._api.create(body, ApiRequest(_USER, key.namespace)).message
            if message:
                self._rejected.add((pod["metadata"]["uid"], name))
                yield f"{key}: FailedResourceClaimCreation: PodResourceClaim {name}: {message}"

    def _has_claim(self, pod: JsonObject, name: str) -> bool:
        return any(
            _get_owner_uid(claim) == pod["metadata"]["uid"]
            and (claim["metadata"].get("annotations") or {}).get(_POD_CLAIM_ANNOTATION) == name
            for _, claim in self._store.list_objects("ResourceClaim")
        )


def _build_claim(key: ObjectKey, pod: JsonObject, name: str, template: JsonObject) -> JsonObject:
    spec = template.get("spec") or {}
    labels, annotations = ((spec.get("metadata") or {}).get(field) or {} for field in ("labels", "annotations"))
    owner = {"apiVersion": "v1", "kind": "Pod", "name": key.name, "uid": pod["metadata"]["uid"], "controller": True}
    metadata = {
        "generateName": f"{key.name}-{name}-",
        "namespace": key.namespace,
        "labels": labels,
        "annotations": {**annotations, _POD_CLAIM_ANNOTATION: name},
        "ownerReferences": [owner],
    }
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": metadata,
        "spec": spec.get("spec") or {},
    }


def _get_owner_uid(claim: JsonObject) -> str:
    """Return the UID of the pod that controls a claim; empty if none does."""
    references = claim["metadata"].get("ownerReferences") or ()
    return next(
        (str(each.get("uid")) for each in references if each.get("controller") and each.get("kind") == "Pod"), ""
    )


def _has_ended(pod: JsonObject) -> bool:
    return (pod.get("status") or {}).get("phase") in _ENDED_PHASES
