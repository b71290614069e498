"""The Secret and the webhook configurations of a cluster: a store for `CertificateReconciler`, and watches.

`CertificateWatch` notifies its owner of each change of these objects as soon as the API server sends it. A watch does
not read the changed object: its owner reconciles. The owner also reconciles periodically, so a watch that breaks off,
is refused or stays silent costs time and nothing else.
"""

import base64
import binascii
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from threading import Event, Lock, Thread
from typing import Any, Final
from urllib.parse import quote, urlsplit

from tallygate.kube.api_errors import ApiError
from tallygate.kube.client import ApiClient
from tallygate.kube.resource_codec import create_response_error
from tallygate.kube.transport import Response, WatchStream
from tallygate_certs import secret_state
from tallygate_certs.ca_bundle import CONFIGURATION_KINDS, get_collection_path, patch_trust, read_configuration
from tallygate_certs.certificate_names import CertificateNames, create_service_names, parse_names
from tallygate_certs.certificate_reconciler import ChangedError, StoredSecret, WebhookTrust
from tallygate_certs.cluster_access import create_certs_error, create_object, read_object, replace_object
from tallygate_certs.errors import CertsError

_CONFLICT_STATUSES = (HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND)  # the object was changed, or deleted
_SECRET_TYPE = "kubernetes.io/tls"  # noqa: S105  # a type, no password
_LABELS = {"app.kubernetes.io/name": "tallygate", "app.kubernetes.io/component": "gate"}
_OUR_ANNOTATIONS = frozenset({secret_state.RENEW_ANNOTATION, secret_state.SINCE_ANNOTATION})
URL_ANNOTATION: Final = "tallygate.dev/url"
"""The annotation of a webhook configuration with the address at which the gate will register itself."""

_CERT_MANAGER_PREFIX = "cert-manager.io/"  # prefix of the annotations of cert-manager, which manages Secrets, too


class KubernetesCertificateStore:
    """One Secret, by namespace and name, and the two configurations of a name."""

    def __init__(self, client: ApiClient, secret: tuple[str, str], configuration_name: str) -> None:
        self._client = client
        self._namespace, self._name = secret
        self._path = f"{get_secrets_path(self._namespace)}/{quote(self._name, safe='')}"
        self._configuration_name = configuration_name
        self._objects: dict[str, Any] = {}

    def read_webhook_trust(self) -> tuple[WebhookTrust, ...]:
        """Return the webhook configurations that exist.

        Raises:
            CertsError: if a configuration cannot be read.
        """
        webhook_trust = []
        for kind in CONFIGURATION_KINDS:
            with self._convert_errors(f"read the {kind} {self._configuration_name}"):
                try:
                    self._objects[kind] = read_configuration(self._client, kind, self._configuration_name)
                except ApiError as error:
                    if error.status != HTTPStatus.NOT_FOUND:
                        raise
                else:
                    webhook_trust.append(_parse_webhook_trust(kind, self._objects[kind]))
        return tuple(webhook_trust)

    def read_secret(self) -> StoredSecret | None:
        """Return the Secret, or None if it does not exist.

        Raises:
            CertsError: if the Secret cannot be read, or cert-manager manages it.
        """
        with self._convert_errors(f"read the Secret {self._secret_name}"):
            try:
                secret = self._objects["Secret"] = read_object(self._client, self._path, "Secret", self._secret_name)
            except ApiError as error:
                if error.status != HTTPStatus.NOT_FOUND:
                    raise
                return None
        metadata = secret["metadata"]
        annotations = metadata.get("annotations") or {}
        if any(name.startswith(_CERT_MANAGER_PREFIX) for name in annotations):
            raise CertsError(
                f"the Secret {self._secret_name} is kept by cert-manager: mount it and serve with --tls-cert and "
                "--tls-key, "
                "or name another by --tls-secret"
            )
        return StoredSecret(
            metadata["resourceVersion"],
            secret_state.parse_secret_state(_decode_data(secret.get("data") or {}), annotations),
        )

    def write_secret(self, state: secret_state.SecretState, expected: StoredSecret | None) -> None:
        """Create the Secret, or replace the expected version of it.

        Raises:
            ChangedError: if the Secret is no longer the expected version.
            CertsError: if the Secret cannot be written.
        """
        data = {
            name: base64.b64encode(value).decode("ascii") for name, value in secret_state.encode_data(state).items()
        }
        with self._convert_errors(f"{'update' if expected else 'create'} the Secret {self._secret_name}"):
            if expected is None:
                body: Any = {"apiVersion": "v1", "kind": "Secret", "type": _SECRET_TYPE, "data": data}
                body["metadata"] = {
                    "name": self._name,
                    "labels": _LABELS,
                    "annotations": secret_state.encode_annotations(state),
                }
                create_object(self._client, get_secrets_path(self._namespace), body)
            else:
                body = _merge_secret(
                    self._objects["Secret"], data, secret_state.encode_annotations(state), expected.version
                )
                replace_object(self._client, self._path, body)

    def publish_bundle(self, expected: WebhookTrust, bundle: bytes) -> None:
        """Write the CA bundle into all webhooks of a configuration.

        Raises:
            ChangedError: if the configuration is no longer the expected version.
            CertsError: if the configuration cannot be written.
        """
        encoded_bundle = base64.b64encode(bundle).decode("ascii")
        with self._convert_errors(f"patch the {expected.kind} {self._configuration_name}"):
            patch_trust(self._client, self._configuration_name, self._objects[expected.kind], encoded_bundle)

    @property
    def _secret_name(self) -> str:
        return f"{self._namespace}/{self._name}"

    @contextmanager
    def _convert_errors(self, operation: str) -> Iterator[None]:
        try:
            yield
        except ApiError as error:
            if error.status in _CONFLICT_STATUSES and not _is_namespace_missing(error):
                raise ChangedError(f"another client was quicker to {operation}") from None
            raise create_certs_error(self._client, error, operation) from None


def get_secrets_path(namespace: str) -> str:
    return f"/api/v1/namespaces/{quote(namespace, safe='')}/secrets"


def _is_namespace_missing(error: ApiError) -> bool:
    return error.status == HTTPStatus.NOT_FOUND and "namespaces" in error.message


def _parse_webhook_trust(kind: str, configuration: Mapping[str, Any]) -> WebhookTrust:
    clients = [webhook["clientConfig"] for webhook in configuration.get("webhooks") or ()]
    bundles = tuple(_decode_base64(client.get("caBundle") or "") for client in clients)
    metadata = configuration["metadata"]
    planned_url = (metadata.get("annotations") or {}).get(URL_ANNOTATION)
    names = _parse_webhook_names([*clients, {"url": planned_url}] if planned_url else clients)
    return WebhookTrust(kind, metadata["resourceVersion"], bundles, names)


def _parse_webhook_names(clients: list[Mapping[str, Any]]) -> CertificateNames | None:
    """Return the names by which an API server calls these (k8s.io/apiserver, pkg/util/webhook/client.go, v1.36)."""
    names = None
    for client in clients:
        try:
            if service := client.get("service"):
                client_names = create_service_names(service["name"], service["namespace"])
            else:
                client_names = parse_names([urlsplit(client["url"]).hostname or ""])
        except (CertsError, KeyError, ValueError):  # the API server accepts names that it cannot call
            continue
        names = names + client_names if names else client_names
    return names


def _merge_secret(
    secret: Mapping[str, Any], data: dict[str, str], our_annotations: dict[str, str], version: str
) -> Any:
    """Return the Secret with our data and annotations, and all fields of other clients as they were."""
    metadata = secret["metadata"]
    annotations = {
        name: text for name, text in (metadata.get("annotations") or {}).items() if name not in _OUR_ANNOTATIONS
    }
    metadata = {**metadata, "annotations": annotations | our_annotations, "resourceVersion": version}
    return {**secret, "metadata": metadata, "data": {**(secret.get("data") or {}), **data}}


def _decode_data(data: Mapping[str, str]) -> dict[str, bytes]:
    return {name: _decode_base64(text) for name, text in data.items()}


def _decode_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""


_WATCH_SECONDS: Final = 300  # seconds; the API server ends a watch then
_RESTART_DELAY_SECONDS: Final = (
    1.0  # seconds after a watch has ended; the next watch begins with the present objects, so no change is lost
)
_RETRY_DELAY_SECONDS: Final = 10.0  # seconds after a watch that was refused or broke off
_POLL_SECONDS: Final = 5.0
_JOIN_TIMEOUT_SECONDS: Final = 1.0


class CertificateWatch:
    """Watches of the three objects, one thread each.

    Any of the threads calls `notify`. A watch can be started once.
    """

    def __init__(
        self, client: ApiClient, secret: tuple[str, str], configuration_name: str, notify: Callable[[], None]
    ) -> None:
        self._client = client
        self._notify = notify
        self._stop = Event()
        self._lock = Lock()
        self._streams: set[WatchStream] = set()
        self._failures: dict[str, str] = {}
        namespace, name = secret
        targets = [(f"Secret {namespace}/{name}", get_secrets_path(namespace), name)]
        targets += [
            (f"{kind} {configuration_name}", get_collection_path(kind), configuration_name)
            for kind in CONFIGURATION_KINDS
        ]
        self._threads = [
            Thread(target=self._watch_until_stopped, args=target, name="certificates-watch", daemon=True)
            for target in targets
        ]

    def start(self) -> None:
        """Start the threads; they notify of the present objects as well."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Break off open watches; do not wait for a connection that is being made."""
        self._stop.set()
        with self._lock:
            streams = list(self._streams)
        for stream in streams:
            stream.close()
        for thread in self._threads:
            thread.join(_JOIN_TIMEOUT_SECONDS)

    @property
    def failure(self) -> str:
        """The reason why an object is not watched; empty if all are."""
        with self._lock:
            return next(iter(self._failures.values()), "")

    def _watch_until_stopped(self, description: str, path: str, name: str) -> None:
        while not self._stop.is_set():
            failure = ""
            try:
                self._read_watch(description, path, name)
            except ApiError as error:
                failure = str(create_certs_error(self._client, error, f"watch the {description}"))
            except Exception as error:  # noqa: BLE001  # any error: the watch ends with its thread
                failure = f"the {description} cannot be watched: {type(error).__name__}"
            if failure:
                self._set_failure(description, failure)
            self._stop.wait((_RETRY_DELAY_SECONDS if failure else _RESTART_DELAY_SECONDS) * random.uniform(0.8, 1.2))  # noqa: S311  not secret

    def _read_watch(self, description: str, path: str, name: str) -> None:
        """Notify of each piece of the response: one event, or several.

        A client that may read an object by name may watch it with a selector of that name alone (k8s.io/apiserver,
        pkg/endpoints/request/requestinfo.go, v1.36).
        """
        query = {"watch": "true", "fieldSelector": f"metadata.name={name}", "timeoutSeconds": f"{_WATCH_SECONDS}"}
        stream = self._client.watch(path, query)
        if isinstance(stream, Response):
            raise create_response_error(stream)
        with self._lock:
            self._streams.add(stream)
        self._set_failure(description, "")
        try:
            while not self._stop.is_set() and (piece := stream.read(_POLL_SECONDS)) != b"":
                if piece:
                    self._notify()
        finally:
            with self._lock:
                self._streams.discard(stream)
            stream.close()

    def _set_failure(self, description: str, failure: str) -> None:
        with self._lock:
            self._failures.pop(description, None)
            if failure and not self._stop.is_set():
                self._failures[description] = failure
