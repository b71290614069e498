"""Objects that the gate keeps in a cluster: they are listed by a label, written by server-side apply, and deleted.

The ClusterRole that lets the gate write a set of them owns the set. So the garbage collector deletes them after the
role, and thus after the installation.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, Literal

import msgspec

from tallygate.kube.api_errors import ApiError, ApiErrorReason
from tallygate.kube.client import OBJECT_LIMITS, ApiClient, ClientConfig
from tallygate.kube.pagination import PAGE_SIZE, WaitFunction, list_raw_pages
from tallygate.kube.resource_codec import create_response_error
from tallygate.kube.transport import Response
from tallygate.policy.model import COMPILED_FROM_LABEL
from tallygate.state.kubernetes import cap_usage
from tallygate.state.kubernetes.cap_ledger import GROUP, VERSION

AppliedObject = dict[str, Any]
"""An object as JSON values."""

_APPLY_PATCH: Final = "application/apply-patch+yaml"
_ROLE_API_VERSION: Final = "rbac.authorization.k8s.io/v1"
_UNKNOWN_OWNER: Final = (HTTPStatus.NOT_FOUND, HTTPStatus.FORBIDDEN)


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedObjects:
    """A set of objects that the gate keeps.

    Args:
        collections: the API version and the resource of each kind.
        selector: the label selector that finds them.
        content: the field of an object that has its content.
        field_manager: the field manager that writes them.
        owner_role: the name of the ClusterRole that lets the gate write them, and that owns them.
    """

    collections: Mapping[str, tuple[str, str]]
    selector: str
    content: Literal["spec", "status"]
    field_manager: str
    owner_role: str

    def get_path(self, kind: str, namespace: str) -> str:
        """Return the path of the objects of a kind in a namespace; of all namespaces if it is empty."""
        api_version, resource = self.collections[kind]
        root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
        return f"{root}/namespaces/{namespace}/{resource}" if namespace else f"{root}/{resource}"


BACKSTOP_ROLE: Final = "tallygate-backstop"
"""The name of the ClusterRole that lets the gate keep the backstop."""

_POLICIES_GROUP: Final = "admissionregistration.k8s.io/v1"
BACKSTOP_OBJECTS: Final = AppliedObjects(
    collections={
        "ResourceQuota": ("v1", "resourcequotas"),
        "ValidatingAdmissionPolicy": (_POLICIES_GROUP, "validatingadmissionpolicies"),
        "ValidatingAdmissionPolicyBinding": (_POLICIES_GROUP, "validatingadmissionpolicybindings"),
    },
    selector=COMPILED_FROM_LABEL,
    content="spec",
    field_manager="tallygate-backstop",
    owner_role=BACKSTOP_ROLE,
)
"""The objects that are compiled from policies."""

USAGE_ROLE: Final = "tallygate-publish-usage"
"""The name of the ClusterRole that lets the gate publish the usage of caps."""

USAGE_OBJECTS: Final = AppliedObjects(
    collections={cap_usage.KIND: (f"{GROUP}/{VERSION}", cap_usage.PLURAL)},
    selector=f"{cap_usage.MANAGED_BY_LABEL}={cap_usage.MANAGER}",
    content="status",
    field_manager="tallygate-usage",
    owner_role=USAGE_ROLE,
)
"""The usage of caps in their member namespaces."""


class _StoredMeta(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    namespace: str = ""
    labels: dict[str, str] | None = None
    uid: str = ""
    resource_version: str = ""
    owner_references: list[dict[str, Any]] = []


class _StoredContent(msgspec.Struct, frozen=True):
    """The parts of a stored object that are compared, and those that identify its version."""

    metadata: _StoredMeta
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


class _OwnerMeta(msgspec.Struct, frozen=True):
    uid: str


class _OwnerContent(msgspec.Struct, frozen=True):
    metadata: _OwnerMeta


class _Cause(msgspec.Struct, frozen=True):
    reason: str = ""


class _Details(msgspec.Struct, frozen=True):
    kind: str = ""
    causes: list[_Cause] | None = None


class _Failure(msgspec.Struct, frozen=True):
    details: _Details | None = None


_DECODER: Final = msgspec.json.Decoder(_StoredContent)


class KubernetesObjectStore:
    """A set of objects of a cluster. Each method raises `ApiError` if the API server does not answer, or refuses.

    `wait` waits for seconds before a list is tried again; without it none is.
    """

    def __init__(self, client: ApiClient, objects: AppliedObjects, wait: WaitFunction | None = time.sleep) -> None:
        self._client = client
        self._objects = objects
        self._wait = wait

    def list_objects(self) -> list[AppliedObject]:
        """Return the objects that have the label; those of a kind that is not served are none."""
        objects: list[AppliedObject] = []
        for kind, (_, resource) in self._objects.collections.items():
            path, selectors = self._objects.get_path(kind, ""), {"labelSelector": self._objects.selector}
            try:
                for page in list_raw_pages(self._client.get, path, PAGE_SIZE, self._wait, selectors):
                    objects += (self._decode(kind, raw) for raw in page)
            except ApiError as error:
                raise self._create_list_error(resource, error.reason, error) from error
            except (ValueError, RecursionError) as error:
                raise self._create_list_error(resource, ApiErrorReason.UNREADABLE, error) from error
        return objects

    def _decode(self, kind: str, raw: bytes | msgspec.Raw) -> AppliedObject:
        stored, content = _DECODER.decode(raw), self._objects.content
        return {
            "apiVersion": self._objects.collections[kind][0],
            "kind": kind,
            "metadata": msgspec.to_builtins(stored.metadata),
            content: getattr(stored, content),
        }

    def _create_list_error(self, resource: str, reason: ApiErrorReason, error: Exception) -> ApiError:
        status = error.status if isinstance(error, ApiError) else 0
        return ApiError(
            reason, f"{resource} cannot be listed at {self._client.server}: {error}", status=status, detail=str(error)
        )

    def read_owner(self) -> dict[str, str] | None:
        """Return the reference to the ClusterRole that lets the gate write the objects; None if that is not known."""
        path = f"/apis/{_ROLE_API_VERSION}/clusterroles/{self._objects.owner_role}"
        response = self._client.get(path)
        if response.status in _UNKNOWN_OWNER:
            return None
        if response.status != HTTPStatus.OK:
            raise create_response_error(response)
        try:
            uid = msgspec.json.decode(response.body, type=_OwnerContent).metadata.uid
        except (ValueError, RecursionError) as error:
            raise ApiError(ApiErrorReason.UNREADABLE, f"{path} cannot be read: {error}") from error
        owner = {"apiVersion": _ROLE_API_VERSION, "kind": "ClusterRole", "name": self._objects.owner_role}
        return owner | {"uid": uid}

    def apply(self, content: AppliedObject, owner: Mapping[str, str] | None) -> AppliedObject | None:
        """Write an object with an owner, and return it as it is stored. Fields of other managers are overwritten.

        Return None if its namespace does not exist, or is being deleted.
        """
        metadata, kind = content["metadata"], content["kind"]
        if owner is not None:
            content = {**content, "metadata": {**metadata, "ownerReferences": [owner]}}
        path = f"{self._objects.get_path(kind, metadata.get('namespace', ''))}/{metadata['name']}"
        query = {"fieldManager": self._objects.field_manager, "force": "true"}
        response = self._client.patch(path, msgspec.json.encode(content), query, content_type=_APPLY_PATCH)
        if response.status in (HTTPStatus.OK, HTTPStatus.CREATED):
            try:
                return self._decode(kind, response.body)
            except (ValueError, RecursionError) as error:
                raise ApiError(ApiErrorReason.UNREADABLE, f"{path} cannot be read: {error}") from error
        if _lacks_namespace(response):
            return None
        raise create_response_error(response)

    def delete(self, content: AppliedObject) -> None:
        """Delete an object as it was listed; one that was changed since stays, and a missing one is no error."""
        metadata = content["metadata"]
        path = f"{self._objects.get_path(content['kind'], metadata.get('namespace') or '')}/{metadata['name']}"
        preconditions = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        response = self._client.delete(path, msgspec.json.encode({"preconditions": preconditions}))
        if response.status not in (HTTPStatus.OK, HTTPStatus.ACCEPTED, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):
            raise create_response_error(response)

    def close(self) -> None:
        """Break a request in progress; later ones fail."""
        self._client.close()


def create_object_store(client_config: ClientConfig, objects: AppliedObjects) -> KubernetesObjectStore:
    """Return the store of a gate, which writes with the field manager of the set."""
    return KubernetesObjectStore(ApiClient(client_config, OBJECT_LIMITS, objects.field_manager), objects)


def _lacks_namespace(response: Response) -> bool:
    """Return whether a write failed since its namespace does not exist, or is being deleted.

    The API server answers 404 with the kind `namespaces`, or 403 with the cause NamespaceTerminating
    (staging/src/k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle/admission.go, v1.36).
    """
    if response.status not in (HTTPStatus.NOT_FOUND, HTTPStatus.FORBIDDEN):
        return False
    try:
        details = msgspec.json.decode(response.body, type=_Failure).details or _Details()
    except (ValueError, RecursionError):
        return False
    if response.status == HTTPStatus.NOT_FOUND:
        return details.kind == "namespaces"
    return any(cause.reason == "NamespaceTerminating" for cause in details.causes or ())
