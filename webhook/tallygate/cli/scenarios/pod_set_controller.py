"""A simulated controller of the kinds of other projects: it creates the pods of each pod set of their objects.

It stands for the many controllers of these kinds, and does what they have in common: as many pods as the object says,
named OBJECT-SET-1, OBJECT-SET-2, … in the object's namespace and owned by it. A pod that succeeded is not replaced.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from tallygate.accounting.names import is_overcommit_allowed
from tallygate.admission.kinds import ReviewTarget, ReviewTargets
from tallygate.admission.pod_view import PodView, read_template
from tallygate.admission.request import UserInfo
from tallygate.cli.scenarios.api_server import ApiRequest, ApiServer, ApiServerStore, ObjectKey
from tallygate.cli.scenarios.scenario import MAX_PODS, JsonObject
from tallygate.cli.scenarios.workload_controllers import (
    ENDED_PHASES,
    SUCCEEDED,
    ControllerResult,
    format_event,
    get_phase,
)

_NO_LABEL: Final = re.compile(r"[^a-z0-9]+")
_TEMPLATE_FIELDS: Final = frozenset({"template", "spec"})
_MAIN_CONTAINER: Final = "main"


class PodSetController:
    """The controller that adapts the stored pods to the objects of kinds with a definition."""

    def __init__(self, api: ApiServer, store: ApiServerStore, targets: ReviewTargets) -> None:
        self._api = api
        self._store = store
        self._targets = {
            f"{kind}.{group}": target for (group, kind), target in targets.items() if target.definition is not None
        }
        self._rejected_at: dict[tuple[ObjectKey, str], tuple[object, int]] = {}

    def reconcile(self, *, retry: bool = False) -> ControllerResult:
        """Create the missing pods of every object, and delete surplus ones and those of deleted objects.

        A rejected create is repeated only if the object has changed or `retry` is set.
        """
        if retry:
            self._rejected_at.clear()
        objects = [
            (key, body, target)
            for kind, target in self._targets.items()
            for key, body in self._store.list_objects(kind)
            if key.namespace and not _find_controller_uid(body)
        ]
        self._collect_garbage({str(body["metadata"]["uid"]) for _, body, _ in objects})
        result = ControllerResult()
        missing = 0
        for key, body, target in objects:
            for name, view in _name_pod_sets(key, body, target).items():
                found = self._replicate(key, body, name, view)
                missing += found.pods_missing
                result += found
        return ControllerResult(result.events, result.pods_created, missing)

    def _collect_garbage(self, uids: set[str]) -> None:
        """Delete the pods whose owner was of one of the kinds and is deleted."""
        for key, pod in list(self._store.list_objects("Pod")):
            for owner in pod["metadata"].get("ownerReferences") or ():
                kind = f"{owner.get('kind')}.{str(owner.get('apiVersion')).rpartition('/')[0]}"
                if owner.get("controller") and kind in self._targets and str(owner.get("uid")) not in uids:
                    self._store.remove(key)
                    break

    def _replicate(self, key: ObjectKey, body: JsonObject, set_name: str, view: PodView) -> ControllerResult:
        """Create the missing pods of a pod set and delete surplus ones."""
        prefix, uid = f"{set_name}-", str(body["metadata"]["uid"])
        pods = [
            (pod_key, pod)
            for pod_key, pod in self._store.list_objects("Pod")
            if pod_key.name.startswith(prefix)
            and pod_key.name.removeprefix(prefix).isdigit()
            and _find_controller_uid(pod) == uid
        ]
        active = [pod_key for pod_key, pod in pods if get_phase(pod) not in ENDED_PHASES]
        succeeded = sum(get_phase(pod) == SUCCEEDED for _, pod in pods)
        count = view.replicas.count if view.replicas is not None else 0
        desired = max(min(count, MAX_PODS) - succeeded, 0)
        for pod_key in reversed(active[desired:]):
            self._store.remove(pod_key)
        return self._create_pods(key, body, (set_name, view), (desired - len(active), len(active)))

    def _create_pods(
        self, key: ObjectKey, body: JsonObject, pod_set: tuple[str, PodView], counts: tuple[int, int]
    ) -> ControllerResult:
        """Create the missing pods of a set, given its name and the numbers of missing and active pods.

        The first rejected one is the last: the others are equal to it.
        """
        (set_name, view), (missing, active_count) = pod_set, counts
        version = body["metadata"]["resourceVersion"]
        if self._rejected_at.get((key, set_name)) == (version, active_count):
            return ControllerResult(pods_missing=max(missing, 0))
        for created in range(missing):
            result = self._api.create(self._build_pod(key, body, set_name, view), _create_request(key))
            if not result.allowed:
                self._rejected_at[key, set_name] = (version, active_count + created)
                return ControllerResult((format_event(key, "FailedCreate", result),), created, missing - created)
        return ControllerResult(pods_created=max(missing, 0))

    def _build_pod(self, key: ObjectKey, body: JsonObject, set_name: str, view: PodView) -> JsonObject:
        template: JsonObject = msgspec.json.decode(read_template(view, msgspec.json.encode(body)))
        owner = {
            "apiVersion": body["apiVersion"],
            "kind": body["kind"],
            "name": key.name,
            "uid": body["metadata"]["uid"],
            "controller": True,
        }
        metadata = {
            **(template.get("metadata") or {}),
            "name": self._choose_name(key, set_name),
            "namespace": key.namespace,
            "ownerReferences": [owner],
        }
        spec = dict(template.get("spec") or {})
        containers = spec.get("containers") or ()
        spec["containers"] = [
            {**container, "name": container.get("name") or _MAIN_CONTAINER} for container in containers
        ]
        if view.is_partial:
            spec["containers"] = [_complete(each, spec) for each in spec["containers"]]
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    def _choose_name(self, key: ObjectKey, set_name: str) -> str:
        number = 1
        while ObjectKey("Pod", key.namespace, f"{set_name}-{number}") in self._store:
            number += 1
        return f"{set_name}-{number}"


def _complete(container: JsonObject, spec: JsonObject) -> JsonObject:
    """Return a container of a template that is a part, with the limits that its pods have by another object.

    Claims that the part does not name are left out: nothing is known of them.
    """
    resources: JsonObject = container.get("resources") or {}
    known = {each.get("name") for each in spec.get("resourceClaims") or ()}
    limits = dict(resources.get("limits") or {})
    for name, amount in (resources.get("requests") or {}).items():
        if not is_overcommit_allowed(name):
            limits.setdefault(name, amount)
    claims = [resource for resource in resources.get("claims") or () if resource.get("name") in known]
    return {**container, "resources": {**resources, "limits": limits, "claims": claims}}


def _name_pod_sets(key: ObjectKey, body: JsonObject, target: ReviewTarget) -> Mapping[str, PodView]:
    """Return the pod sets of an object by the first part of the names of their pods.

    A set is named by its noun, or, if another one has the same, by the item of the list or mapping that it is in. Where
    the object says which pods start first, those that may run at other times are none.
    """
    views = [*target.list_pods(target.decode(msgspec.json.encode(body)))]
    if any(view.replicas is not None and view.replicas.is_first for view in views):
        views = [
            view for view in views if view.replicas is None or view.replicas.is_first or not view.replicas.is_separate
        ]
    nouns = [view.replicas.noun if view.replicas is not None else "" for view in views]
    named: dict[str, PodView] = {}
    for noun, view in zip(nouns, views, strict=True):
        text = noun if nouns.count(noun) == 1 else _name_item(view)
        name = _NO_LABEL.sub("-", text.lower()).strip("-") or "pods"
        unique = next(_number(name, named, key))
        named[unique] = view
    return named


def _number(name: str, taken: Mapping[str, PodView], key: ObjectKey) -> Iterator[str]:
    """Yield the names for a set that are not taken, from the shortest on."""
    for suffix in ("", *(f"-{number}" for number in range(2, len(taken) + 3))):
        if (candidate := f"{key.name}-{name}{suffix}") not in taken:
            yield candidate


def _name_item(view: PodView) -> str:
    parts: Sequence[str] = [part for part in view.identity.split("/") if part not in _TEMPLATE_FIELDS]
    return parts[-1] if parts else ""


def _find_controller_uid(body: JsonObject) -> str:
    """Return the uid of the controller of an object; an empty text if it has none."""
    references = body["metadata"].get("ownerReferences") or ()
    return next((str(reference.get("uid")) for reference in references if reference.get("controller")), "")


def _create_request(key: ObjectKey) -> ApiRequest:
    """Return a request by the controller of a kind, which has a service account in a namespace of its own."""
    kind = key.kind.partition(".")[0].lower()
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{kind}-system", "system:authenticated")
    return ApiRequest(UserInfo(f"system:serviceaccount:{kind}-system:{kind}-controller", groups), key.namespace)
