"""Who owns what: controllers by kind, how they sign, and what their objects say of it."""

from typing import Final

from webhook.admission.change import UserInfo
from webhook.cli.sequences.api_server import Request
from webhook.cli.sequences.model import Body
from webhook.cli.sequences.store import Key

ENDED: Final = frozenset({"Succeeded", "Failed"})
SUCCEEDED: Final = "Succeeded"
CONTROLLERS: Final = {
    "Deployment": "deployment-controller",
    "ReplicaSet": "replicaset-controller",
    "StatefulSet": "statefulset-controller",
    "DaemonSet": "daemon-set-controller",
    "ReplicationController": "replication-controller",
    "Job": "job-controller",
}
_GROUPS: Final = ("system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated")


def request(key: Key) -> Request:
    """How the controller of a kind asks."""
    name = CONTROLLERS[key.kind]
    return Request(UserInfo(f"system:serviceaccount:kube-system:{name}", _GROUPS), key.namespace)


def reference(key: Key, owner: Body) -> Body:
    """What an owned object says of its owner."""
    uid = owner["metadata"]["uid"]
    return {"apiVersion": owner["apiVersion"], "kind": key.kind, "name": key.name, "uid": uid, "controller": True}


def owner(body: Body) -> Body | None:
    """The controller that owns an object, where one of ours does."""
    references = body["metadata"].get("ownerReferences") or ()
    return next((each for each in references if each.get("controller") and str(each.get("kind")) in CONTROLLERS), None)


def is_owned(pod: Body, workload: Body) -> bool:
    """Whether this very workload owns a pod."""
    found = owner(pod)
    return found is not None and found.get("uid") == workload["metadata"]["uid"]


def phase(pod: Body) -> str:
    """The phase of a pod; empty while nobody has said one."""
    return str((pod.get("status") or {}).get("phase", ""))
