"""Drawn requests, as an API server accepts and completes them before any policy exists.

A drawn object gets the fields that its kind must have, and runs no pods. The old object of an update is stored, and the
new one is sent as a dry run: the answer has the values on which a policy is evaluated.
"""

import copy
import itertools
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from e2e.api import Answer, Object, api
from e2e.ports import Cluster
from e2e.sent_users import create_headers
from tallygate.accounting.names import is_hugepage, is_overcommit_allowed
from tallygate.accounting.quantity import Quantity
from tests.backstop.comparison import list_rejections

ADMIN_ACCESS_LABEL: Final = "resource.kubernetes.io/admin-access"
"""The label that a namespace must have for claims with admin access."""

_SERVICE_ACCOUNT: Final = "system:serviceaccount:"
_NO_CLASS: Final = {"scopeName": "PriorityClass", "operator": "In", "values": ["no-such-class"]}
_SOME_HUGE_PAGES: Final = "4Mi"


class DrawnReview(NamedTuple):
    """A request with completed objects, as the gate reads it, and what is sent for it."""

    request: Object
    method: str
    path: str
    body: Object

    def send(self, cluster: Cluster) -> Answer:
        """Send it as a dry run, as its user."""
        user = self.request["userInfo"]
        headers = create_headers(user["username"], user["groups"])
        query = {"dryRun": "All"}
        return api(cluster.kubeconfig).ask(self.method, self.path, self.body, query=query, headers=headers)


class ReviewPreparation:
    """The preparation of drawn requests in a cluster without policies."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._numbers = itertools.count(1)

    def prepare(self, drawn: Object) -> DrawnReview | None:
        """Return the review of a drawn request; None if an API server rejects its object or the old one.

        Raises:
            ClusterError: if the API server does not answer.
        """
        request = _make_acceptable(drawn)
        if request is None:
            return None
        request |= {"name": f"drawn-{next(self._numbers)}", "userInfo": _complete_user(drawn["userInfo"])}
        new = _complete(request["object"], request["name"], request["namespace"])
        client = api(self._cluster.kubeconfig)
        path = client.collection(new, request["namespace"])
        method = "POST"
        if request["operation"] == "UPDATE":
            stored = client.ask("POST", path, _complete(request["oldObject"], request["name"], request["namespace"]))
            if not stored.is_done:
                return None
            request["oldObject"] = stored.object()
            new = _change(request["oldObject"], new, is_resize=bool(request.get("subResource")))
            method, path = "PUT", "/".join(filter(None, (path, request["name"], request.get("subResource"))))
        review = DrawnReview(request, method, path, new)
        answer = review.send(self._cluster)
        if not answer.is_done:
            return None
        request["object"] = answer.object()
        return review


def _complete_user(user: Object) -> Object:
    """Return the name and all groups of a user as an API server has them; one without a name is `jane`."""
    name = user.get("username", "jane")
    groups = [*user.get("groups", ())]
    if name.startswith(_SERVICE_ACCOUNT):
        groups += ["system:serviceaccounts", f"system:serviceaccounts:{name.split(':')[2]}"]
    return {"username": name, "groups": [*dict.fromkeys((*groups, "system:authenticated"))]}


def _make_acceptable(drawn: Object) -> Object | None:
    """Return a request whose objects have amounts that Kubernetes accepts; None if others are needed."""
    request = copy.deepcopy(drawn)
    if request["kind"]["kind"] == "LimitRange" and request["operation"] == "UPDATE":  # a stored one would change pods
        request["operation"] = "CREATE"
        del request["oldObject"]
    for field in ("object", "oldObject"):
        if field not in request:
            continue
        if list_rejections({**request, "object": request[field]}) and (spec := find_pod_spec(request[field])):
            for container in (*spec["containers"], *spec.get("initContainers", ())):
                _correct(container["resources"])
        if list_rejections({**request, "object": request[field]}):
            return None
    return request


def find_pod_spec(body: Object) -> Object | None:
    """Return the specification of the pods of an object of a built-in kind; None if it has none."""
    spec: Any = body.get("spec") or {}
    match body["kind"]:
        case "Pod":
            return body.get("spec")
        case "PodTemplate":
            spec = body.get("template")
            return spec.get("spec") if spec else None
        case "CronJob":
            spec = spec["jobTemplate"]["spec"]
    return spec["template"]["spec"] if spec.get("template") else None


def _correct(resources: Object) -> None:
    """Let requests be no more than limits, and equal to them and whole where Kubernetes requires it."""
    requests, limits = resources.setdefault("requests", {}), resources.setdefault("limits", {})
    for name in {*requests, *limits}:
        if name.startswith("mykubernetes.io"):
            requests.pop(name, None)
            limits.pop(name, None)
        elif is_hugepage(name):
            requests[name] = limits[name] = _SOME_HUGE_PAGES
            limits.setdefault("memory", "1Gi")
        elif not is_overcommit_allowed(name):
            requests[name] = limits[name] = str(_parse(limits.get(name, requests.get(name))).floor())
        elif name in requests and name in limits and _parse(requests[name]) > _parse(limits[name]):
            requests[name] = limits[name]


def _parse(amount: Any) -> Quantity:
    return Quantity.parse(str(amount))


def _complete(body: Object, name: str, namespace: str) -> Object:
    """Return an object with this name, and with the fields that its kind must have, which runs no pods."""
    made = copy.deepcopy(body)
    made["metadata"] |= {"name": name, "namespace": namespace}
    spec: Object = made.get("spec") or {}
    pods = find_pod_spec(made)
    if pods is not None:
        pods["schedulerName"] = "no-scheduler"
    match made["kind"]:
        case "Pod":
            spec.pop("overhead", None)  # RuntimeClass admission rejects it without a class
        case "ResourceQuota":
            spec["scopeSelector"] = {"matchExpressions": [_NO_CLASS]}
        case "Job" | "CronJob":
            of_job = spec["jobTemplate"]["spec"] if made["kind"] == "CronJob" else spec
            of_job |= {"suspend": True, "parallelism": 0}
            spec["suspend"] = True
            of_job["template"]["spec"]["restartPolicy"] = "Never"
        case "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet" | "ReplicationController":
            _complete_workload(made["kind"], spec, name)
    return made


def _complete_workload(kind: str, spec: Object, name: str) -> None:
    labels = spec["template"]["metadata"]["labels"] = {**spec["template"]["metadata"]["labels"], "app": name}
    spec["selector"] = {"app": name} if kind == "ReplicationController" else {"matchLabels": {"app": labels["app"]}}
    if kind == "DaemonSet":
        spec["template"]["spec"]["nodeSelector"] = {"no-such": "node"}
    else:
        spec["replicas"] = 0
    if kind == "StatefulSet":
        spec["serviceName"] = name


def _change(stored: Object, wanted: Object, *, is_resize: bool) -> Object:
    """Return a stored object with the labels and the amounts of another one; a resize changes cpu and memory only."""
    changed = copy.deepcopy(stored)
    changed["metadata"] = {**changed["metadata"], "labels": wanted["metadata"].get("labels", {})}
    del changed["metadata"]["resourceVersion"]
    spec, pods = changed.get("spec") or {}, find_pod_spec(changed)
    match changed["kind"]:
        case "ResourceQuota":
            spec["hard"] = wanted["spec"]["hard"]
        case "ResourceClaimTemplate":
            changed["spec"]["metadata"] = wanted["spec"]["metadata"]
        case "ResourceClaim":
            pass
        case "Pod" if not is_resize:
            pass
        case _:
            _change_amounts(pods or {}, find_pod_spec(wanted) or {}, is_resize=is_resize)
    if is_resize:
        changed["metadata"]["labels"] = stored["metadata"].get("labels", {})
    return changed


def _change_amounts(pods: Object, wanted: Object, *, is_resize: bool) -> None:
    for container, other in zip(_list_containers(pods), _list_containers(wanted), strict=True):
        if not is_resize:
            container["resources"] = other["resources"]
            continue
        for field in ("requests", "limits"):
            amounts, target = (each["resources"].get(field, {}) for each in (other, container))
            target |= {name: amounts[name] for name in ("cpu", "memory") if name in amounts and name in target}
    if not is_resize:
        for field in ("overhead", "resources"):
            pods.pop(field, None)
            pods |= {field: wanted[field]} if field in wanted else {}


def _list_containers(pods: Object) -> Iterator[Object]:
    yield from pods.get("containers", ())
    yield from pods.get("initContainers", ())
