"""The compiled objects of a cluster: they are listed by their label, written by server-side apply, and deleted."""

import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

import msgspec

from tallygate.kube.api_errors import ApiError, ApiErrorReason
from tallygate.kube.client import OBJECT_LIMITS, ApiClient, ClientConfig
from tallygate.kube.pagination import PAGE_SIZE, WaitFunction, list_raw_pages
from tallygate.kube.resource_codec import create_response_error
from tallygate.policy.model import COMPILED_FROM_LABEL

StoredObject = dict[str, Any]
"""A compiled object as JSON values."""

_POLICIES_GROUP: Final = "admissionregistration.k8s.io/v1"
_COLLECTIONS: Final[Mapping[str, tuple[str, str]]] = {
    "ResourceQuota": ("v1", "resourcequotas"),
    "ValidatingAdmissionPolicy": (_POLICIES_GROUP, "validatingadmissionpolicies"),
    "ValidatingAdmissionPolicyBinding": (_POLICIES_GROUP, "validatingadmissionpolicybindings"),
}
"""The API version and the resource of each kind of compiled objects."""
FIELD_MANAGER: Final = "tallygate-backstop"
"""The field manager of the compiled objects."""

BACKSTOP_ROLE: Final = "tallygate-backstop"
"""The name of the ClusterRole that lets the gate keep the objects, and that owns them."""

_OWNER: Final = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": BACKSTOP_ROLE}
_OWNER_PATH: Final = f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{BACKSTOP_ROLE}"
_APPLY_PATCH: Final = "application/apply-patch+yaml"
_UNKNOWN_OWNER: Final = (HTTPStatus.NOT_FOUND, HTTPStatus.FORBIDDEN)


class _StoredMeta(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    namespace: str = ""
    labels: dict[str, str] | None = None
    uid: str = ""
    resource_version: str = ""


class _StoredContent(msgspec.Struct, frozen=True):
    """The parts of a stored object that are compared, and those that identify its version."""

    metadata: _StoredMeta
    spec: dict[str, Any] = {}


class _OwnerMeta(msgspec.Struct, frozen=True):
    uid: str


class _OwnerContent(msgspec.Struct, frozen=True):
    metadata: _OwnerMeta


_DECODER: Final = msgspec.json.Decoder(_StoredContent)


class KubernetesBackstopStore:
    """The compiled objects of a cluster. Each method raises `ApiError` if the API server does not answer, or refuses.

    `wait` waits for seconds before a list is tried again; without it none is.
    """

    def __init__(self, client: ApiClient, wait: WaitFunction | None = time.sleep) -> None:
        self._client = client
        self._wait = wait

    def list_objects(self) -> list[StoredObject]:
        """Return the objects that have the label of compiled ones; those of a kind that is not served are none."""
        objects: list[StoredObject] = []
        selectors = {"labelSelector": COMPILED_FROM_LABEL}
        for kind, (api_version, resource) in _COLLECTIONS.items():
            path = _get_path(kind, "")
            try:
                for page in list_raw_pages(self._client.get, path, PAGE_SIZE, self._wait, selectors):
                    stored = (msgspec.to_builtins(_DECODER.decode(raw)) for raw in page)
                    objects += ({"apiVersion": api_version, "kind": kind, **content} for content in stored)
            except ApiError as error:
                raise self._create_list_error(resource, error.reason, error) from error
            except (ValueError, RecursionError) as error:
                raise self._create_list_error(resource, ApiErrorReason.UNREADABLE, error) from error
        return objects

    def _create_list_error(self, resource: str, reason: ApiErrorReason, error: Exception) -> ApiError:
        status = error.status if isinstance(error, ApiError) else 0
        return ApiError(
            reason, f"{resource} cannot be listed at {self._client.server}: {error}", status=status, detail=str(error)
        )

    def read_owner(self) -> dict[str, str] | None:
        """Return the reference to the ClusterRole that lets the gate keep the objects; None if that is not known.

        With it as their owner the garbage collector deletes the objects after the role, so after the installation.
        """
        response = self._client.get(_OWNER_PATH)
        if response.status in _UNKNOWN_OWNER:
            return None
        if response.status != HTTPStatus.OK:
            raise create_response_error(response)
        try:
            uid = msgspec.json.decode(response.body, type=_OwnerContent).metadata.uid
        except (ValueError, RecursionError) as error:
            raise ApiError(ApiErrorReason.UNREADABLE, f"{_OWNER_PATH} cannot be read: {error}") from error
        return _OWNER | {"uid": uid}

    def apply(self, content: StoredObject, owner: Mapping[str, str] | None) -> None:
        """Write an object as it is compiled, with an owner. Fields of other managers are overwritten."""
        metadata = content["metadata"]
        if owner is not None:
            content = {**content, "metadata": {**metadata, "ownerReferences": [owner]}}
        path = f"{_get_path(content['kind'], metadata.get('namespace', ''))}/{metadata['name']}"
        query = {"fieldManager": FIELD_MANAGER, "force": "true"}
        response = self._client.patch(path, msgspec.json.encode(content), query, content_type=_APPLY_PATCH)
        if response.status not in (HTTPStatus.OK, HTTPStatus.CREATED):
            raise create_response_error(response)

    def delete(self, content: StoredObject) -> None:
        """Delete an object as it was listed; one that was changed since stays, and a missing one is no error."""
        metadata = content["metadata"]
        path = f"{_get_path(content['kind'], metadata.get('namespace') or '')}/{metadata['name']}"
        preconditions = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        response = self._client.delete(path, msgspec.json.encode({"preconditions": preconditions}))
        if response.status not in (HTTPStatus.OK, HTTPStatus.ACCEPTED, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):
            raise create_response_error(response)

    def close(self) -> None:
        """Break a request in progress; later ones fail."""
        self._client.close()


def create_backstop_store(client_config: ClientConfig) -> KubernetesBackstopStore:
    """Return the store of a gate, which writes with its own field manager."""
    return KubernetesBackstopStore(ApiClient(client_config, OBJECT_LIMITS, FIELD_MANAGER))


def _get_path(kind: str, namespace: str) -> str:
    api_version, resource = _COLLECTIONS[kind]
    root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
    return f"{root}/namespaces/{namespace}/{resource}" if namespace else f"{root}/{resource}"
