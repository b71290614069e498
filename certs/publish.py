"""Publishing: the authorities of a folder, written into the webhook configurations by which an API server trusts us."""

import base64
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from http import HTTPStatus
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization
from kubernetes.client import AdmissionregistrationV1Api, ApiClient
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from certs.cluster import explained
from certs.errors import CertsError
from certs.files import AUTHORITIES, CHAIN, read_authorities, read_chain
from certs.show import chain_problem

_LARGEST_BUNDLE = 1 << 16  # bytes; an authority takes less than one thousand, and each entry gets a copy
_TRIES = 5
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")  # a DNS subdomain, so far that it is one step of a path
_RAW: Any = {
    "_preload_content": False,  # the client's own types forget fields of newer versions, and mind what is new in others
    "_request_timeout": (5.0, 30.0),  # seconds, to connect and to answer
}
_MANAGER = "tallygate-certs"  # who `kubectl get --show-managed-fields` says it was
_JSON_PATCH = "application/json-patch+json"


class Outcome(StrEnum):
    """What became of one configuration."""

    UPDATED = "updated"
    UNCHANGED = "unchanged"
    MISSING = "not there"


@dataclass(frozen=True, slots=True)
class Published:
    """One configuration, and what became of it."""

    kind: str
    name: str
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class _Configurations:
    """How the configurations of one kind are read and changed."""

    kind: str
    read: Callable[..., Any]
    patch: Callable[..., Any]


def bundle(folder: Path, now: datetime) -> bytes:
    """What is to be trusted: the certificates of `ca.crt` as PEM, and nothing else that may stand in it.

    Raises:
        CertsError: there are none, they are too many to publish, or a serving certificate beside them is not valid by
            them: then nobody could call the gate any more.
    """
    authorities, chain = read_authorities(folder), read_chain(folder)
    if not authorities:
        raise CertsError(f"{folder / AUTHORITIES}: no certificate in it; `tallygate certs issue` makes one")
    if chain and (problem := chain_problem(chain[0], authorities, now)):
        raise CertsError(
            f"{folder / CHAIN}: {problem}; who trusts only {folder / AUTHORITIES} would not call the gate: "
            "`tallygate certs renew` or `tallygate certs issue` makes it anew"
        )
    pem = b"".join(each.public_bytes(serialization.Encoding.PEM) for each in authorities)
    if len(pem) > _LARGEST_BUNDLE:
        raise CertsError(
            f"{folder / AUTHORITIES}: {len(authorities)} certificates, {len(pem)} bytes; the most that is published is "
            f"{_LARGEST_BUNDLE}: keep those that sign for the gate"
        )
    return pem


def publish(client: ApiClient, name: str, trusted: bytes) -> Iterator[Published]:
    """Write `trusted` into every webhook of both configurations of this name, and say of each what was done.

    What is so already is not written; nothing but `caBundle` is touched. One of the two may be missing.

    Raises:
        CertsError: nothing can be called so, neither is there, the API server cannot be reached or refuses, or others
            keep changing one.
    """
    if not _NAME.fullmatch(name):
        raise CertsError(
            f"{name!r} names no webhook configuration: lower-case letters and digits, with - and . between"
        )
    api = AdmissionregistrationV1Api(client)
    done = []
    for configurations in (
        _Configurations(
            "MutatingWebhookConfiguration",
            api.read_mutating_webhook_configuration,
            api.patch_mutating_webhook_configuration,
        ),
        _Configurations(
            "ValidatingWebhookConfiguration",
            api.read_validating_webhook_configuration,
            api.patch_validating_webhook_configuration,
        ),
    ):
        try:
            outcome = _publish(configurations, name, base64.b64encode(trusted).decode("ascii"))
        except (ApiException, HTTPError) as error:
            raise explained(error, client, f"read and patch the {configurations.kind} {name}") from None
        done.append(outcome)
        yield Published(configurations.kind, name, outcome)
    if set(done) == {Outcome.MISSING}:
        raise CertsError(
            f"no webhook configuration is called {name}: register the gate first (kubectl apply -k "
            "deploy/kustomize/base), or name it by --name"
        )


def _publish(configurations: _Configurations, name: str, trusted: str) -> Outcome:
    for _ in range(_TRIES):
        try:
            found = _read(configurations, name)
            operations = _operations(found, trusted)
            if not operations:
                return Outcome.UNCHANGED
            configurations.patch(name, operations, field_manager=_MANAGER, _content_type=_JSON_PATCH, **_RAW)
        except ApiException as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return Outcome.MISSING
            if error.status != HTTPStatus.CONFLICT:
                raise
        else:
            return Outcome.UPDATED
    raise CertsError(
        f"the {configurations.kind} {name} was changed by somebody else each of the {_TRIES} times that we read it: "
        "try again, and look who writes it (kubectl get --show-managed-fields)"
    )


def _read(configurations: _Configurations, name: str) -> Any:
    """The object as it was sent."""
    response = configurations.read(name, **_RAW)
    try:
        found = json.loads(response.data)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or found.get("kind") != configurations.kind:
        raise CertsError(f"what answered for the {configurations.kind} {name} is no API server")
    return found


def _operations(found: Any, trusted: str) -> list[dict[str, Any]]:
    """The JSON patch that makes every webhook trust; it holds only for the very version that was read (409 else)."""
    entries = [
        {"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": trusted}
        for index, webhook in enumerate(found.get("webhooks") or ())
        if webhook["clientConfig"].get("caBundle") != trusted
    ]
    version = {"op": "add", "path": "/metadata/resourceVersion", "value": found["metadata"]["resourceVersion"]}
    return [version, *entries] if entries else []
