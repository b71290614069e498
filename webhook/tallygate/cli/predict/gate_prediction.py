"""The gate's predictions about pending pods, for users who may not list nodes and namespaces."""

import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import click
import msgspec

from tallygate.accounting.scheduling.prediction import Feasibility
from tallygate.cli.ask.gate_answers import GateAnswer, ask_gate
from tallygate.cli.ask.gate_client import GateError
from tallygate.cli.ask.without_rights import announce, open_gate_instead
from tallygate.cli.connection import Connection
from tallygate.cli.framework import EXIT_FINDINGS, UsageError
from tallygate.cli.output import tables
from tallygate.cli.predict import prediction_text
from tallygate.cli.sources.resource_lists import ListError
from tallygate.documents.reader import read_documents
from tallygate.documents.syntax_tree import DEFAULT_LIMITS
from tallygate.kube.api_errors import ApiError
from tallygate.kube.client import ApiClient
from tallygate.kube.resource_codec import create_response_error
from tallygate.manifests.manifest_objects import Manifest, list_objects

_KEPT_METADATA = ("name", "namespace", "uid", "labels", "annotations", "creationTimestamp", "ownerReferences")
_KEPT_STATUS = ("resourceClaimStatuses", "extendedResourceClaimStatus")


def print_answer_of_gate(
    connection: Connection, namespace: str, names: Sequence[str], error: ListError, output: str
) -> int:
    """Print the gate's predictions about stored pods without a node, and return the exit code.

    Raises:
        UsageError: if a pod does not exist, has a node or cannot be read, or the gate does not answer; with the error.
    """
    answer = _ask_about_pods(connection, namespace, names, error)
    records = [prediction for each in answer.record.objects for prediction in each.predictions]
    items = [prediction for each in answer.content["objects"] for prediction in each["predictions"]]
    tables.print_list("Prediction", items, output, lambda: prediction_text.print_records(records))
    verdicts = {record.verdict for record in records}
    if Feasibility.REJECTED in verdicts:
        click.echo("tallygate: the pod is stored already: a new one like it would be rejected", err=True)
    return 0 if verdicts == {Feasibility.NOW} else EXIT_FINDINGS


def _ask_about_pods(connection: Connection, namespace: str, names: Sequence[str], error: ListError) -> GateAnswer:
    """Return the gate's answer about stored pods that have no node, by their manifests."""
    gate = open_gate_instead(connection, error)
    client = ApiClient(connection.load())
    try:
        manifests = [_read_pod(client, namespace, name) for name in names]
    finally:
        client.close()
    announce(gate, "about the manifest of the pod")
    try:
        return ask_gate(gate, manifests, namespace)
    except GateError as reason:
        raise UsageError(f"{error}\nthe gate does not answer instead: {reason}") from reason


def _read_pod(client: ApiClient, namespace: str, name: str) -> Manifest:
    try:
        response = client.get(f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(name, safe='')}")
    except ApiError as error:
        raise UsageError(f"pod/{name} cannot be read at {client.server}: {error}") from error
    if response.status == HTTPStatus.NOT_FOUND:
        raise UsageError(f"pod/{name}: no pod of that name in namespace {namespace}")
    if response.status != HTTPStatus.OK:
        raise UsageError(f"pod/{name} cannot be read at {client.server}: {create_response_error(response)}")
    try:
        pod: dict[str, Any] = msgspec.json.decode(response.body, type=dict[str, Any])
        spec: Mapping[str, Any] = pod["spec"]
        metadata: Mapping[str, Any] = pod["metadata"]
        status: Mapping[str, Any] = pod.get("status") or {}
    except (ValueError, KeyError) as error:
        raise UsageError(f"pod/{name} cannot be read at {client.server}: {error}") from None
    if spec.get("nodeName"):
        raise UsageError(f"pod/{name}: it is on node {spec['nodeName']} already")
    content = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {key: metadata[key] for key in _KEPT_METADATA if key in metadata},
        "spec": spec,
        "status": {key: status[key] for key in _KEPT_STATUS if key in status},
    }
    (document,) = read_documents(json.dumps(content), DEFAULT_LIMITS)
    (manifest,) = (item for item in list_objects(f"pod/{name}", document) if isinstance(item, Manifest))
    return manifest
