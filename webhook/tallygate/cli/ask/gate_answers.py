"""The answers of the server of asks: found, asked and read."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from tallygate.admission.webhook_configuration import DEFAULT_NAMESPACE
from tallygate.answers.answer_records import AskAnswer
from tallygate.cli.ask.asked_objects import AskedObjects
from tallygate.cli.ask.gate_address import GateOptions, find_address, find_pod_port
from tallygate.cli.ask.gate_client import GateClient, GateError
from tallygate.cli.connection import Connection
from tallygate.kube.client import ApiClient
from tallygate.manifests.manifest_objects import Manifest
from tallygate.server.asking.ask_request import MAX_BODY_BYTES

URL_VARIABLE: Final = "TALLYGATE_ASK_URL"
CA_VARIABLE: Final = "TALLYGATE_ASK_CA"
_ASK_PATH: Final = "/v1/ask"


class GateAnswer(NamedTuple):
    """An answer as plain data, with the places of findings in files, and the same as a record."""

    content: dict[str, Any]
    record: AskAnswer


def create_gate_options(url: str | None = None, ca: Path | None = None, namespace: str | None = None) -> GateOptions:
    """Return options of a command; the address may also be in `TALLYGATE_ASK_URL` and `TALLYGATE_ASK_CA`."""
    if url is None and ca is None:
        url, ca_name = os.environ.get(URL_VARIABLE) or None, os.environ.get(CA_VARIABLE)
        ca = Path(ca_name) if ca_name and url else None
    return GateOptions(url, ca, namespace or DEFAULT_NAMESPACE)


def open_gate(connection: Connection, options: GateOptions) -> GateClient:
    """Return a client of the server of asks, with the credentials of a connection.

    Raises:
        ClientConfigError: if the API server is not configured.
        UsageError: if an option is not usable.
        NoGateError: if no server of asks is found.
        GateError: if there are no credentials for it.
    """
    config = connection.load()
    client = ApiClient(config)
    address = find_address(options, client, in_cluster=connection.in_cluster)
    return GateClient(address, config, lambda: find_pod_port(address.url, client))


def ask_gate(gate: GateClient, manifests: Sequence[Manifest], namespace: str) -> GateAnswer:
    """Return the answer about objects; `namespace` is that of objects that name none.

    Raises:
        GateError: if there is no answer.
        DocumentError: if an object cannot be written as JSON.
    """
    asked = AskedObjects(manifests)
    if len(asked.body) > MAX_BODY_BYTES:
        message = f"the objects have {len(asked.body)} bytes, and one ask is about at most {MAX_BODY_BYTES}"
        raise GateError(f"{message}: ask about fewer objects at a time")
    body = gate.exchange("POST", _ASK_PATH, {"namespace": namespace}, asked.body)
    try:
        content = msgspec.json.decode(body)
        msgspec.convert(content, AskAnswer)
        asked.restore_places(content)
        return GateAnswer(content, msgspec.convert(content, AskAnswer))
    except (ValueError, RecursionError) as error:
        raise GateError(f"{gate.url} sends no AskAnswer that this version reads: {error}") from None
