"""Who owns what: controllers by kind, how they sign, and what their objects say of it."""

from typing import Final

from webhook.admission.request import UserInfo
from webhook.cli.sequences.api_server import ApiRequest
from webhook.cli.sequences.model import JsonObject
from webhook.cli.sequences.store import ObjectKey

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
