"""The CA bundle in the two webhook configurations of an API server: reads, patches, and publishing from a folder.

An API server trusts the gate by the CAs in `caBundle`. Publishing writes the CAs of a folder there.
"""

import base64
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from cryptography.hazmat.primitives import serialization

from tallygate.kube.api_errors import ApiError
from tallygate.kube.client import ApiClient
from tallygate_certs.cert_files import CA_FILE, CHAIN_FILE, read_ca_certificates, read_chain
from tallygate_certs.certificate_status import find_chain_problem
from tallygate_certs.cluster_access import create_certs_error, patch_object, read_object, replace_object
from tallygate_certs.errors import CertsError

CONFIGURATION_KINDS: Final = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


def get_collection_path(kind: str) -> str:
    return f"/apis/admissionregistration.k8s.io/v1/{kind.lower()}s"


def read_configuration(client: ApiClient, kind: str, name: str) -> Any:
    """Return one configuration as the API server sent it.

    Raises:
        ApiError: if it cannot be read; status 404: it does not exist.
        CertsError: if the response does not come from an API server.
    """
    return read_object(client, _get_configuration_path(kind, name), kind, name)


def patch_trust(client: ApiClient, name: str, configuration: Any, encoded_bundle: str) -> bool:
    """Write a CA bundle (PEM in base64) into every webhook of a configuration; return whether a write was needed.

    Raises:
        ApiError: if it cannot be written; status 409: it was changed since it was read.
    """
    operations = _create_operations(configuration, encoded_bundle)
    if operations:
        patch_object(client, _get_configuration_path(configuration["kind"], name), operations)
    return bool(operations)


def _get_configuration_path(kind: str, name: str) -> str:
    return f"{get_collection_path(kind)}/{quote(name, safe='')}"


def _create_operations(configuration: Any, encoded_bundle: str) -> list[dict[str, Any]]:
    """Return the JSON patch that sets every bundle; it applies only to the version that was read (else status 409)."""
    entries = [
        {"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": encoded_bundle}
        for index, webhook in enumerate(configuration.get("webhooks") or ())
        if webhook["clientConfig"].get("caBundle") != encoded_bundle
    ]
    version = {"op": "add", "path": "/metadata/resourceVersion", "value": configuration["metadata"]["resourceVersion"]}
    return [version, *entries] if entries else []


_MAX_BUNDLE_BYTES = 1 << 16  # bytes; a CA takes less than one thousand, and each webhook gets a copy
_MAX_ATTEMPTS = 5


class PublishOutcome(StrEnum):
    """The outcome of publishing to one configuration."""

    UPDATED = "updated"
    UNCHANGED = "unchanged"
    REGISTERED = "registered"
    EMPTY = "without webhooks"
    MISSING = "not there"


@dataclass(frozen=True, slots=True)
class PublishResult:
    """One configuration, and the outcome of publishing to it."""

    kind: str
    name: str
    outcome: PublishOutcome


def read_ca_bundle(folder: Path, now: datetime) -> bytes:
    """Return the certificates of `ca.crt` as PEM, without any other text of the file.

    Raises:
        CertsError: if there are no certificates, they are too large to publish, or the serving certificate beside them
            is not valid by them: clients could no longer call the gate.
    """
    ca_certificates, chain = read_ca_certificates(folder), read_chain(folder)
    if not ca_certificates:
        raise CertsError(f"{folder / CA_FILE}: no certificate in it; `tallygate certs issue` makes one")
    if chain and (problem := find_chain_problem(chain[0], ca_certificates, now)):
        raise CertsError(
            f"{folder / CHAIN_FILE}: {problem}; a client that trusts only {folder / CA_FILE} would not call the gate: "
            "`tallygate certs renew` or `tallygate certs issue` creates a new one"
        )
    encoded = b"".join(certificate.public_bytes(serialization.Encoding.PEM) for certificate in ca_certificates)
    if len(encoded) > _MAX_BUNDLE_BYTES:
        raise CertsError(
            f"{folder / CA_FILE}: {len(ca_certificates)} certificates, {len(encoded)} bytes; the most that is "
            "published is "
            f"{_MAX_BUNDLE_BYTES}: keep those that sign for the gate"
        )
    return encoded


Webhooks = list[dict[str, Any]]


def publish_bundle(
    client: ApiClient, name: str, bundle: bytes, create_webhooks: Callable[[Any], Webhooks | None] = lambda _: None
) -> Iterator[PublishResult]:
    """Write `bundle` into every webhook of both configurations of this name, and yield the result for each.

    A configuration with this bundle is not written; only `caBundle` is changed. A configuration without webhooks gets
    those that `create_webhooks` returns for it, unless it returns None. One of the two may be missing.

    Raises:
        CertsError: if both configurations are missing, the API server cannot be reached or
            refuses, or other clients keep changing one.
    """
    outcomes = []
    for kind in CONFIGURATION_KINDS:
        try:
            encoded_bundle = base64.b64encode(bundle).decode("ascii")
            outcome = _publish_to_configuration(client, kind, name, encoded_bundle, create_webhooks)
        except ApiError as error:
            raise create_certs_error(client, error, f"read and patch the {kind} {name}") from None
        outcomes.append(outcome)
        yield PublishResult(kind, name, outcome)
    if set(outcomes) == {PublishOutcome.MISSING}:
        raise CertsError(
            f"no webhook configuration is called {name}: register the gate first (kubectl apply -k "
            "deploy/kustomize/base)"
        )


def _publish_to_configuration(
    client: ApiClient, kind: str, name: str, encoded_bundle: str, create_webhooks: Callable[[Any], Webhooks | None]
) -> PublishOutcome:
    for _ in range(_MAX_ATTEMPTS):
        try:
            configuration = read_configuration(client, kind, name)
            if not configuration.get("webhooks"):
                webhooks = create_webhooks(configuration)
                if webhooks is None:
                    return PublishOutcome.EMPTY
                replace_object(client, _get_configuration_path(kind, name), {**configuration, "webhooks": webhooks})
                return PublishOutcome.REGISTERED
            if not patch_trust(client, name, configuration, encoded_bundle):
                return PublishOutcome.UNCHANGED
        except ApiError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return PublishOutcome.MISSING
            if error.status != HTTPStatus.CONFLICT:
                raise
        else:
            return PublishOutcome.UPDATED
    raise CertsError(
        f"the {kind} {name} was changed by another client after each of {_MAX_ATTEMPTS} reads: "
        "try again, and find that client (kubectl get --show-managed-fields)"
    )
