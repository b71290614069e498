"""The Secret and the webhook configurations of a real cluster, for `Keeper`."""

import base64
import binascii
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any
from urllib.parse import quote, urlsplit

from certs.api import Api, ApiError
from certs.configurations import KINDS, read, write_trust
from certs.errors import CertsError
from certs.keeper import ChangedError, Registered, Stored
from certs.kept import ASKED, SINCE, Kept, annotations_of, data_of, read_kept
from certs.names import Names, parse_names, service_names

_CHANGED = (HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND)  # what was there is another, or gone
_TYPE = "kubernetes.io/tls"
_LABELS = {"app.kubernetes.io/name": "tallygate", "app.kubernetes.io/component": "gate"}
_OURS = frozenset({ASKED, SINCE})
_OTHERS = "cert-manager.io/"  # what annotations begin with of who keeps Secrets, too


class InCluster:
    """One Secret, by namespace and name, and the two configurations of a name."""

    def __init__(self, api: Api, secret: tuple[str, str], registration: str) -> None:
        self._api = api
        self._namespace, self._name = secret
        self._path = f"{secrets_in(self._namespace)}/{quote(self._name, safe='')}"
        self._registration = registration
        self._raw: dict[str, Any] = {}

    def registered(self) -> tuple[Registered, ...]:
        """Those configurations that there are.

        Raises:
            CertsError: that cannot be told.
        """
        found = []
        for kind in KINDS:
            with _explaining(f"read the {kind} {self._registration}"):
                try:
                    self._raw[kind] = read(self._api, kind, self._registration)
                except ApiError as error:
                    if error.status != HTTPStatus.NOT_FOUND:
                        raise
                else:
                    found.append(_registered(kind, self._raw[kind]))
        return tuple(found)

    def stored(self) -> Stored | None:
        """The Secret, if there is one.

        Raises:
            CertsError: that cannot be told, or somebody else keeps it.
        """
        with _explaining(f"read the Secret {self._called}"):
            try:
                found = self._raw["Secret"] = self._api.read(self._path, "Secret", self._called)
            except ApiError as error:
                if error.status != HTTPStatus.NOT_FOUND:
                    raise
                return None
        metadata = found["metadata"]
        annotations = metadata.get("annotations") or {}
        if any(name.startswith(_OTHERS) for name in annotations):
            raise CertsError(
                f"the Secret {self._called} is kept by cert-manager: mount it and serve with --tls-cert and --tls-key, "
                "or name another by --tls-secret"
            )
        return Stored(metadata["resourceVersion"], read_kept(_decoded(found.get("data") or {}), annotations))

    def store(self, kept: Kept, before: Stored | None) -> None:
        """Write the Secret in the place of what was found.

        Raises:
            ChangedError: it is no longer as it was found.
            CertsError: it cannot be written.
        """
        data = {name: base64.b64encode(value).decode("ascii") for name, value in data_of(kept).items()}
        with _explaining(f"{'update' if before else 'create'} the Secret {self._called}"):
            if before is None:
                body: Any = {"apiVersion": "v1", "kind": "Secret", "type": _TYPE, "data": data}
                body["metadata"] = {"name": self._name, "labels": _LABELS, "annotations": annotations_of(kept)}
                self._api.create(secrets_in(self._namespace), body)
            else:
                body = _replaced(self._raw["Secret"], data, annotations_of(kept), before.version)
                self._api.replace(self._path, body)

    def publish(self, found: Registered, bundle: bytes) -> None:
        """Let all webhooks of a configuration trust this.

        Raises:
            ChangedError: it is no longer as it was found.
            CertsError: it cannot be written.
        """
        trusted = base64.b64encode(bundle).decode("ascii")
        with _explaining(f"patch the {found.kind} {self._registration}"):
            write_trust(self._api, self._registration, self._raw[found.kind], trusted)

    @property
    def _called(self) -> str:
        return f"{self._namespace}/{self._name}"


def secrets_in(namespace: str) -> str:
    """The path of all Secrets of a namespace."""
    return f"/api/v1/namespaces/{quote(namespace, safe='')}/secrets"


@contextmanager
def _explaining(doing: str) -> Iterator[None]:
    try:
        yield
    except ApiError as error:
        if error.status in _CHANGED and not _says_no_namespace(error):
            raise ChangedError(f"somebody else was quicker to {doing}") from None
        raise error.explained(doing) from None


def _says_no_namespace(error: ApiError) -> bool:
    return error.status == HTTPStatus.NOT_FOUND and "namespaces" in error.message


def _registered(kind: str, found: Mapping[str, Any]) -> Registered:
    clients = [webhook["clientConfig"] for webhook in found.get("webhooks") or ()]
    bundles = tuple(_bytes(client.get("caBundle") or "") for client in clients)
    return Registered(kind, found["metadata"]["resourceVersion"], bundles, _names(clients))


def _names(clients: list[Mapping[str, Any]]) -> Names | None:
    """By which an API server calls these (k8s.io/apiserver, pkg/util/webhook/client.go, v1.36)."""
    names = None
    for client in clients:
        try:
            if service := client.get("service"):
                more = service_names(service["name"], service["namespace"])
            else:
                more = parse_names([urlsplit(client["url"]).hostname or ""])
        except (CertsError, KeyError, ValueError):  # the API server lets through what nothing can be called by
            continue
        names = names + more if names else more
    return names


def _replaced(found: Mapping[str, Any], data: dict[str, str], said: dict[str, str], version: str) -> Any:
    """What was found, with everything of others in it."""
    metadata = found["metadata"]
    annotations = {name: text for name, text in (metadata.get("annotations") or {}).items() if name not in _OURS}
    metadata = {**metadata, "annotations": annotations | said, "resourceVersion": version}
    return {**found, "metadata": metadata, "data": {**(found.get("data") or {}), **data}}


def _decoded(data: Mapping[str, str]) -> dict[str, bytes]:
    return {name: _bytes(text) for name, text in data.items()}


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""
