"""The webhook configurations of the gate in a cluster, the served resources, and the objects of its own installation.

The installation is the gate's Deployment and its namespace: they show whether a replica is ready to be called, and
whether the gate is being removed.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, NamedTuple

import msgspec

from tallygate.kube.api_errors import ApiError
from tallygate.kube.client import OBJECT_LIMITS, ApiClient, ClientConfig
from tallygate.kube.discovery import Discovery, Served
from tallygate.kube.resource_codec import create_response_error
from tallygate.kube.transport import Response
from tallygate.objects.admission_registration import Webhook, WebhookConfiguration, encode_webhook
from tallygate.state.ports import StoreUnavailableError

CONFIGURATION_KINDS: Final = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")

_QUERY: Final = {"fieldManager": "tallygate-registration"}


class StoredConfiguration(NamedTuple):
    """A webhook configuration as the API server sent it: its `content`, of which a write keeps all else, and typed."""

    content: Mapping[str, Any]
    typed: WebhookConfiguration


@dataclass(frozen=True, slots=True)
class Installation:
    """The state of the gate's Deployment and namespace.

    `deployment_uid` and `namespace_uid` are empty if the object does not exist, or may not be read. `is_deleted` is
    true if one of both is being deleted, and `is_deployment_absent` if the Deployment does not exist: a refused read
    (403) shows nothing, since an API server that has just started may refuse what it will allow.
    """

    deployment_uid: str = ""
    namespace_uid: str = ""
    ready_replicas: int = 0
    is_deleted: bool = False
    is_deployment_absent: bool = False


class KubernetesRegistrationStore:
    """The two configurations of a name, and the installation with that name in a namespace; for any thread.

    Each method takes at most `timeout` seconds for each request, and raises `ApiError` if the API server does not
    answer, or refuses.
    """

    def __init__(self, client_config: ClientConfig, namespace: str, name: str) -> None:
        self._client = ApiClient(client_config, OBJECT_LIMITS, "tallygate-registration")
        self._discovery = Discovery(self._client)
        self._namespace_path = f"/api/v1/namespaces/{namespace}"
        self._deployment_path = f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}"
        self._namespace = namespace
        self._name = name

    def read_configurations(self, timeout: float) -> list[StoredConfiguration]:
        paths = map(self._get_path, CONFIGURATION_KINDS)
        contents = [content for path in paths if (content := self._find(path, timeout)) is not None]
        return [StoredConfiguration(content, _convert(content)) for content in contents]

    def read_installation(self, timeout: float) -> Installation:
        found_deployment = self._find_readable(self._deployment_path, timeout)
        deployment, namespace = found_deployment or {}, self._find_readable(self._namespace_path, timeout) or {}
        return Installation(
            deployment_uid=deployment.get("metadata", {}).get("uid", ""),
            namespace_uid=namespace.get("metadata", {}).get("uid", ""),
            ready_replicas=deployment.get("status", {}).get("readyReplicas") or 0,
            is_deleted=any("deletionTimestamp" in owner.get("metadata", {}) for owner in (deployment, namespace)),
            is_deployment_absent=found_deployment is None,
        )

    def read_served_resources(self, timeout: float) -> Served:
        """Return the resources that the API server serves; one thread only."""
        return self._discovery.read(timeout)

    def replace_webhooks(
        self,
        stored: StoredConfiguration,
        webhooks: Sequence[Webhook],
        annotations: Mapping[str, str],
        namespace_uid: str,
        timeout: float,
    ) -> bool:
        """Replace the webhooks of a stored configuration; return whether it was still the stored version.

        The annotations are written in the same request, beside those that it has.

        The namespace becomes an owner of the configuration if its UID is given: then the garbage collector deletes the
        configuration after the namespace. An API server with the admission plugin OwnerReferencesPermissionEnforcement
        refuses that to a client that may not delete the configuration; then it gets no owner.
        """
        metadata = stored.content["metadata"]
        owner = {"apiVersion": "v1", "kind": "Namespace", "name": self._namespace, "uid": namespace_uid}
        owners = metadata.get("ownerReferences") or []
        is_owned = not namespace_uid or any(owner.get("uid") == namespace_uid for owner in owners)
        for all_owners in (owners,) if is_owned else ([*owners, owner], owners):
            replaced = {
                **stored.content,
                "webhooks": list(map(encode_webhook, webhooks)),
                "metadata": {
                    **metadata,
                    "annotations": {**(metadata.get("annotations") or {}), **annotations},
                    "ownerReferences": all_owners,
                },
            }
            path = self._get_path(stored.typed.kind)
            response = self._client.replace(path, json.dumps(replaced).encode(), _QUERY, timeout=timeout)
            if response.status != HTTPStatus.FORBIDDEN:
                break
        if response.status in (HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND):
            return False
        _check(response)
        return True

    def close(self) -> None:
        """Break a request in progress; later ones fail."""
        self._client.close()

    def _get_path(self, kind: str) -> str:
        return f"/apis/admissionregistration.k8s.io/v1/{kind.lower()}s/{self._name}"

    def _find(self, path: str, timeout: float) -> Mapping[str, Any] | None:
        """Return the object at a path, or None if it does not exist."""
        response = self._client.get(path, timeout=timeout)
        if response.status == HTTPStatus.NOT_FOUND:
            return None
        _check(response)
        try:
            decoded = json.loads(response.body)
        except (ValueError, RecursionError):
            decoded = None
        if not isinstance(decoded, dict) or not isinstance(decoded.get("metadata"), dict):
            raise StoreUnavailableError(f"what answered for {path} is no API server")
        return decoded

    def _find_readable(self, path: str, timeout: float) -> Mapping[str, Any] | None:
        """Return the object at a path, an empty one if it may not be read, or None if it does not exist."""
        try:
            return self._find(path, timeout)
        except ApiError as error:
            if error.status != HTTPStatus.FORBIDDEN:
                raise
            return {}


def _convert(content: Mapping[str, Any]) -> WebhookConfiguration:
    try:
        return msgspec.convert(content, WebhookConfiguration)
    except msgspec.ValidationError as error:
        raise StoreUnavailableError(f"a webhook configuration is not as an API server stores it: {error}") from None


def _check(response: Response) -> None:
    if response.status != HTTPStatus.OK:
        raise create_response_error(response)
