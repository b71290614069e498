"""A simulated API server: defaults, both admission phases, validation and the store.

The phases have the order of endpoints/handlers/create.go and registry/generic/registry/store.go of apiserver v1.36.
The admission reviews have the form of reviews that were recorded from a real API server (tests/reviews).

The immutable fields follow ValidatePodUpdate and ValidatePodResize of pkg/apis/core/validation/validation.go, v1.36.
Of the defaults that Kubernetes sets before admission, only the defaults of resources are implemented; of its mutating
admission, LimitRanger and the default class of Priority.
"""

import copy
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from tallygate.accounting.pod_defaults import PodDefaults
from tallygate.accounting.pod_resources import PodResources, Quantities, parse_pod_resources
from tallygate.accounting.problem import Problem
from tallygate.admission.created_pods import find_rejections
from tallygate.admission.kinds import BUILT_IN_TARGETS, DecodedObject, ReviewTargets
from tallygate.admission.object_values import TooManyItemsError
from tallygate.admission.pod_view import PodView
from tallygate.admission.request import CREATE, UPDATE, AdmissionRequest, PatchOperation, Phase, UserInfo
from tallygate.admission.webhook_configuration import DEFAULT_NAMESPACE
from tallygate.answers.api_validation import apply_patch, validate_admin_access_of, validate_object
from tallygate.answers.created_pods import set_pod_defaults
from tallygate.cli.scenarios.scenario import JsonObject, RequestResult, create_invalid, create_rejection, create_result
from tallygate.cluster.kinds import KINDS
from tallygate.gate.gate import Gate
from tallygate.objects.core import Pod, PodSpec
from tallygate.objects.devices import ResourceClaim, ResourceClaimTemplate, ResourceSlice
from tallygate.objects.meta import PartialObjectMetadata
from tallygate.policy.limit_annotations import select_texts
from tallygate.state.informers.device_store import PublishedDevice

CLUSTER_SCOPED = frozenset(kind.kind for kind in KINDS.values() if not kind.is_namespaced)
_CREATION_TIMESTAMP = "2026-01-01T00:00:00Z"

_CONTAINER_LISTS = ("containers", "initContainers")
_RESIZABLE: Final = frozenset({"cpu", "memory"})
_DECODE_METADATA: Final = msgspec.json.Decoder(PartialObjectMetadata).decode
_WEBHOOK_TIMEOUT_SECONDS: Final = 5.0  # as registered
_STATUS: Final = "status"
_DEVICES_GROUP: Final = "resource.k8s.io"
_SLICE_DECODER: Final = msgspec.json.Decoder(ResourceSlice)
_DEVICE_DECODER: Final = msgspec.json.Decoder(PublishedDevice)


def _decode_slice(content: bytes) -> ResourceSlice:
    """Decode a slice and its devices.

    Raises:
        msgspec.ValidationError: if a field has another type.
    """
    resource_slice = _SLICE_DECODER.decode(content)
    for device in (resource_slice.spec.devices if resource_slice.spec else None) or ():
        _DEVICE_DECODER.decode(device)
    return resource_slice


_STORED_KINDS: Final[Mapping[tuple[str, str], Callable[[bytes], object]]] = {
    (kind.version.rpartition("/")[0], kind.kind): msgspec.json.Decoder(kind.type).decode
    for kind in KINDS.values()
    if kind.kind in CLUSTER_SCOPED - {"Node", "NodePool", "NodeClaim"}
} | {(_DEVICES_GROUP, "ResourceSlice"): _decode_slice}
"""The decoders of the modelled kinds to which no rule applies."""

_EXCLUDED_NAMESPACES: Final = frozenset({"kube-system", DEFAULT_NAMESPACE})


@dataclass(frozen=True, slots=True)
class ObjectKey:
    """The key of an object: its kind, namespace (empty for a cluster-scoped kind) and name.

    A kind that is not modelled here has its group as a suffix, so that it differs from a modelled kind of this name.
    """

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind.lower()} {self.namespace}/{self.name}".replace(" /", " ")


WatchListener = Callable[[str, ObjectKey, JsonObject], None]
"""A function that receives every change as a watch event of type ADDED, MODIFIED or DELETED."""


class ApiServerStore:
    """The stored objects by key; `listener` is called synchronously after every change."""

    def __init__(self, listener: WatchListener) -> None:
        self._listener = listener
        self._objects: dict[ObjectKey, JsonObject] = {}
        self._revision = 0
        self._uid_count = 0
        self._suffix_count = 0

    @property
    def revision(self) -> int:
        """The revision of the last change."""
        return self._revision

    def __contains__(self, key: ObjectKey) -> bool:
        return key in self._objects

    def find(self, key: ObjectKey) -> JsonObject | None:
        """Return a copy of a stored object; None if it does not exist."""
        return copy.deepcopy(self._objects.get(key))

    def list_objects(self, kind: str) -> Iterator[tuple[ObjectKey, JsonObject]]:
        """Yield all objects of a kind in the order of their creation; the caller must not change them."""
        yield from [(key, body) for key, body in self._objects.items() if key.kind == kind]

    def find_namespace_labels(self, namespace: str) -> Mapping[str, str] | None:
        """Return the labels of a namespace; None if it does not exist."""
        stored = self._objects.get(ObjectKey("Namespace", "", namespace))
        return None if stored is None else stored["metadata"].get("labels") or {}

    def create_uid(self) -> str:
        """Return a new unique uid."""
        self._uid_count += 1
        return f"00000000-0000-4000-8000-{self._uid_count:012}"

    def create_name_suffix(self) -> str:
        """Return a new suffix for a name from `generateName`."""
        self._suffix_count += 1
        return str(self._suffix_count)

    def put(self, key: ObjectKey, body: JsonObject) -> None:
        """Store an object that has a uid, with the next revision."""
        event = "MODIFIED" if key in self._objects else "ADDED"
        self._revision += 1
        stored = copy.deepcopy(body)
        stored["metadata"] |= {"resourceVersion": str(self._revision)}
        stored["metadata"].setdefault("creationTimestamp", _CREATION_TIMESTAMP)
        self._objects[key] = stored
        self._listener(event, key, stored)

    def remove(self, key: ObjectKey) -> None:
        """Delete an object; its deletion has a revision too."""
        removed = self._objects.pop(key)
        self._revision += 1
        removed["metadata"]["resourceVersion"] = str(self._revision)
        self._listener("DELETED", key, removed)


def set_default_requests(pod: JsonObject) -> None:
    """Copy limits to missing requests of a pod (SetDefaults_Pod, pkg/apis/core/v1/defaults.go, v1.36).

    The default applies to pods only: a template is stored as written. The pod must have been decoded before, so its
    structure is valid.
    """
    spec = pod.get("spec") or {}
    for name in _CONTAINER_LISTS:
        for container in spec.get(name) or ():
            _copy_limits_to_requests(container.get("resources"))


def _copy_limits_to_requests(resources: Any) -> None:
    if not resources or not resources.get("limits"):
        return
    resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}


def find_immutable_change(new_object: DecodedObject, old_body: JsonObject, subresource: str) -> str:
    """Return why an update of a pod or claim is forbidden; an empty string if it is allowed, or the kind is another.

    Both objects must have passed validation. The requests of a claim, and a template of claims, never change
    (ValidateResourceClaimUpdate in pkg/apis/resource/validation/validation.go, v1.37).
    """
    if isinstance(new_object, ResourceClaim | ResourceClaimTemplate):
        old_object = msgspec.json.decode(msgspec.json.encode(old_body), type=type(new_object))
        return "" if new_object.spec == old_object.spec else "spec: Invalid value: field is immutable"
    if not isinstance(new_object, Pod):
        return ""
    new, old = (
        _read_resources(new_object),
        _read_resources(msgspec.json.decode(msgspec.json.encode(old_body), type=Pod)),
    )
    if subresource == "resize":
        is_same = _list_fixed_resources(new) == _list_fixed_resources(old)
        return "" if is_same else "spec: Forbidden: only cpu and memory resources are mutable"
    return "" if new == old else "spec: Forbidden: pod updates may not change what a pod asks for; resize it instead"


def _read_resources(pod: Pod) -> PodResources:
    return parse_pod_resources(pod.spec or PodSpec())


def _list_fixed_resources(pod: PodResources) -> list[tuple[str, Quantities, Quantities]]:
    """Return the requests and limits of each container that a resize cannot change."""
    return [
        (container.name, _exclude_resizable(container.requests), _exclude_resizable(container.limits))
        for container in (*pod.init, *pod.containers)
    ]


def _exclude_resizable(quantities: Quantities) -> Quantities:
    return {name: quantity for name, quantity in quantities.items() if name not in _RESIZABLE}


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """The user, the namespace, the dry-run flag and the subresource of a request."""

    user: UserInfo
    namespace: str
    dry_run: bool = False
    subresource: str = ""


class ApiServer:
    """An API server that processes one request at a time.

    `monotonic` is the clock of the gate, `targets` are the kinds that it reviews. `find_pod_defaults` returns what
    built-in admission gives new pods of a namespace.
    """

    def __init__(
        self,
        gate: Gate,
        store: ApiServerStore,
        monotonic: Callable[[], float],
        targets: ReviewTargets,
        find_pod_defaults: Callable[[str], PodDefaults],
    ) -> None:
        self._gate = gate
        self._store = store
        self._monotonic = monotonic
        self._targets = targets
        self._find_pod_defaults = find_pod_defaults
        self._review_count = 0

    def create(self, body: JsonObject, request: ApiRequest) -> RequestResult:
        body, key = _assign_name_and_namespace(body, request, self._store, self._targets)
        if not key.name:
            return create_rejection(f"{key.kind}: metadata.name: Required value: name or generateName is required")
        if key.namespace and ObjectKey("Namespace", "", key.namespace) not in self._store:
            return create_rejection(f'namespaces "{key.namespace}" not found')
        if key in self._store:
            return create_rejection(f"{key} already exists")
        result = self._admit(body, None, key, request)
        if result.stored_body is not None and not request.dry_run:
            self._store.put(key, result.stored_body)
        return result

    def update(self, body: JsonObject, request: ApiRequest) -> RequestResult:
        """Replace a stored object."""
        body, key = _assign_name_and_namespace(body, request, self._store, self._targets)
        old_body = self._store.find(key)
        if old_body is None:
            return create_rejection(f"{key} not found")
        body["metadata"]["uid"] = old_body["metadata"]["uid"]
        result = self._admit(body, old_body, key, request)
        if result.stored_body is not None and not request.dry_run:
            self._store.put(key, result.stored_body)
        return result

    def _admit(
        self, body: JsonObject, old_body: JsonObject | None, key: ObjectKey, request: ApiRequest
    ) -> RequestResult:
        """Run admission and validation; the result's `stored_body` is the object to store."""
        target = self._targets.get((_get_group(body), str(body["kind"])))
        try:
            other = _STORED_KINDS.get((_get_group(body), key.kind), _DECODE_METADATA)
            (target.decode if target else other)(msgspec.json.encode(body))
        except (msgspec.ValidationError, TooManyItemsError) as error:
            return create_rejection(f"{key} in version {body['apiVersion']} cannot be handled: {error}")
        if target is None:
            return self._admit_without_rules(body, old_body, key, request)
        if key.kind == "Pod":
            self._set_defaults(body, old_body, key)
        mutating_result, patch = RequestResult(), tuple[PatchOperation, ...]()
        if _get_group(body) != _DEVICES_GROUP:  # for claims no mutating webhook is registered
            mutating_result, patch = self._call_webhook(body, old_body, key, request, Phase.MUTATING)
        if not mutating_result.allowed:
            return mutating_result
        body = json.loads(apply_patch(msgspec.json.encode(body), patch))
        if key.kind == "Pod":
            set_default_requests(body)
        self._prepare(body, old_body, key, request.subresource)
        decoded = target.decode(msgspec.json.encode(body))
        if problems := self._validate(decoded, target.list_pods(decoded), key, is_new=old_body is None):
            return create_invalid(str(key), problems).add_earlier(mutating_result)
        if old_body is not None and (reason := find_immutable_change(decoded, old_body, request.subresource)):
            return create_rejection(f"{key} is invalid: {reason}").add_earlier(mutating_result)
        validating_result, _ = self._call_webhook(body, old_body, key, request, Phase.VALIDATING)
        result = validating_result.add_earlier(mutating_result)
        return replace(result, stored_body=body) if result.allowed else result

    def _set_defaults(self, body: JsonObject, old_body: JsonObject | None, key: ObjectKey) -> None:
        """Fill in what a pod gets before any webhook; built-in admission completes only a new one."""
        set_default_requests(body)
        if old_body is None:
            set_pod_defaults(body, self._find_pod_defaults(key.namespace))

    def _validate(
        self, decoded: DecodedObject, views: Sequence[PodView], key: ObjectKey, *, is_new: bool
    ) -> list[Problem]:
        problems = list(validate_object(decoded, views))
        if is_new:
            labels = self._store.find_namespace_labels(key.namespace)
            problems += validate_admin_access_of(decoded, key.namespace, labels)
            if isinstance(decoded, Pod):
                problems += find_rejections(views, views, self._find_pod_defaults(key.namespace))
        return problems

    def _admit_without_rules(
        self, body: JsonObject, old_body: JsonObject | None, key: ObjectKey, request: ApiRequest
    ) -> RequestResult:
        """Admit an object of a kind without rules; the gate sees only namespaces, when validating.

        It sees the creation of a namespace only with an annotation that sets limits.
        """
        self._prepare(body, old_body, key)
        if key.kind != "Namespace" or (old_body is None and not select_texts(body["metadata"].get("annotations"))):
            return RequestResult(stored_body=body)
        result, _ = self._call_webhook(body, old_body, key, request, Phase.VALIDATING)
        return replace(result, stored_body=body) if result.allowed else result

    def _prepare(self, body: JsonObject, old_body: JsonObject | None, key: ObjectKey, subresource: str = "") -> None:
        """Set the uid of a new object, and keep the stored status, unless the request is one for the status.

        A create can set the status of a node only.
        """
        body["metadata"].setdefault("uid", self._store.create_uid())
        if subresource == _STATUS:
            return
        status = (old_body or {}).get("status")
        if status is not None:
            body["status"] = status
        elif old_body is not None or key.kind != "Node":
            body.pop("status", None)

    def _call_webhook(
        self, body: JsonObject, old_body: JsonObject | None, key: ObjectKey, request: ApiRequest, phase: Phase
    ) -> tuple[RequestResult, tuple[dict[str, object], ...]]:
        """Call the gate as the registered webhooks do: not for objects in `kube-system` and the gate's namespace."""
        if key.namespace in _EXCLUDED_NAMESPACES:
            return RequestResult(), ()
        self._review_count += 1
        body, name = _format_for_webhook(body, key, phase, is_new=old_body is None)
        review_request = AdmissionRequest(
            str(body["kind"]),
            CREATE if old_body is None else UPDATE,
            msgspec.json.encode(body),
            None if old_body is None else msgspec.json.encode(old_body),
            group=_get_group(body),
            subresource=request.subresource,
            namespace=key.namespace if key.kind != "Namespace" else key.name,
            name=name,
            user=request.user,
            dry_run=request.dry_run,
            uid=f"review-{self._review_count}",
        )
        deadline = self._monotonic() + _WEBHOOK_TIMEOUT_SECONDS
        return create_result(self._gate.decide(review_request, phase, deadline))


def _assign_name_and_namespace(
    body: JsonObject, request: ApiRequest, store: ApiServerStore, targets: ReviewTargets
) -> tuple[JsonObject, ObjectKey]:
    metadata = dict(body.get("metadata") or {})
    kind, group = str(body["kind"]), _get_group(body)
    definition = targets[group, kind].definition if (group, kind) in targets else None
    is_cluster_scoped = definition is not None and not definition.is_namespaced
    if (group, kind) not in BUILT_IN_TARGETS and (group, kind) not in _STORED_KINDS:
        kind = f"{kind}.{group}"
    namespace = (
        "" if is_cluster_scoped or kind in CLUSTER_SCOPED else str(metadata.get("namespace") or request.namespace)
    )
    if not metadata.get("name") and metadata.get("generateName"):
        metadata["name"] = f"{metadata['generateName']}{store.create_name_suffix()}"
    if namespace:
        metadata["namespace"] = namespace
    body_copy: JsonObject = msgspec.json.decode(msgspec.json.encode({**body, "metadata": metadata}))
    return body_copy, ObjectKey(kind, namespace, str(metadata.get("name") or ""))


def _format_for_webhook(body: JsonObject, key: ObjectKey, phase: Phase, *, is_new: bool) -> tuple[JsonObject, str]:
    """Return the object and its name in a webhook's view.

    The API server generates a name from `generateName` after the mutating phase.
    """
    if not is_new or phase is not Phase.MUTATING or not body["metadata"].get("generateName"):
        return body, key.name
    metadata = {name: value for name, value in body["metadata"].items() if name != "name"}
    return {**body, "metadata": metadata}, ""


def _get_group(body: JsonObject) -> str:
    return str(body["apiVersion"]).rpartition("/")[0]
