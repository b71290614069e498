"""A demonstration with three pods: reviews as an API server sends them, and output as kubectl prints it."""

import http.client
import json
import shlex
import ssl
import uuid
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

import click
import msgspec

from tallygate.cli.demo.demo_files import DEMO_PODS, DemoFiles
from tallygate.documents.reader import read_documents
from tallygate.documents.syntax_tree import DEFAULT_LIMITS
from tallygate.documents.to_json import to_json
from tallygate.errors import TallygateError

_PHASES = ("mutate", "validate")
_DESCRIPTIONS = {
    "good": "Two GPUs of the four that team-a may use.",
    "bad": "One and a half GPUs, and a request that is not its limit.",
    "greedy": "Three GPUs, where two of four are already reserved.",
}


class NoDecisionError(TallygateError):
    """A response without a decision on a pod of the demonstration."""


class Demonstration:
    """A client that sends the pods to a gate and prints the responses."""

    def __init__(self, files: DemoFiles, url: str) -> None:
        self._files = files
        self._url = url
        self._connection = http.client.HTTPSConnection(
            urlsplit(url).netloc, timeout=10, context=ssl.create_default_context(cafile=files.ca_file)
        )

    def show(self) -> None:
        """Print each pod's result as kubectl would, and a command that repeats the request."""
        with closing(self._connection):
            for name in DEMO_PODS:
                self._show_pod(name)

    def _show_pod(self, name: str) -> None:
        path = self._files.get_pod_file(name)
        click.echo(f"# {_DESCRIPTIONS[name]}\n$ kubectl apply -f {path}")
        phase, review_response = self._send_reviews(name)
        for line in format_kubectl_output(name, str(path), phase, review_response):
            click.echo(line)
        click.echo(f"# ask again:\n{self._format_curl(name, phase)}\n")

    def _send_reviews(self, name: str) -> tuple[str, dict[str, Any]]:
        """Return the last phase and its response; as in the API server, a mutating denial is final."""
        pod = _parse_pod(self._files.get_pod_file(name).read_text(encoding="utf-8"))
        for phase in _PHASES:
            body = msgspec.json.encode(create_review(pod, phase))
            self._files.get_review_file(name, phase).write_bytes(msgspec.json.format(body, indent=1))
            self._connection.request("POST", f"/v1/admit/{phase}", body, {"Content-Type": "application/json"})
            response = self._connection.getresponse()
            text = response.read()
            if response.status != http.HTTPStatus.OK:
                raise NoDecisionError(f"the gate answered {response.status} to {name}: {text.decode(errors='replace')}")
            review_response = json.loads(text)["response"]
            if not review_response["allowed"]:
                break
        return phase, review_response

    def _format_curl(self, name: str, phase: str) -> str:
        return shlex.join(
            [
                *("curl", "--silent", "--cacert", str(self._files.ca_file)),
                *(
                    "--header",
                    "Content-Type: application/json",
                    "--data",
                    f"@{self._files.get_review_file(name, phase)}",
                ),
                f"{self._url}/v1/admit/{phase}",
            ]
        )


def format_kubectl_output(name: str, path: str, phase: str, review_response: dict[str, Any]) -> list[str]:
    """Return the lines that kubectl prints: the warnings, then the creation or the reason of the rejection.

    For the reason Invalid it prints the causes, else the message as the API server forwards it (checkErr in
    k8s.io/kubectl/pkg/cmd/util/helpers.go, ToStatusErr in apiserver's webhook/errors/statuserror.go, v1.36).
    """
    warnings = [f"Warning: {warning}" for warning in review_response.get("warnings", ())]
    if review_response["allowed"]:
        return [*warnings, f"pod/{name} created"]
    return [*warnings, *_format_rejection(path, phase, review_response["status"])]


def _format_rejection(path: str, phase: str, status: dict[str, Any]) -> list[str]:
    if status["reason"] != "Invalid":
        webhook = f'admission webhook "{phase}.tallygate.dev" denied the request: {status["message"]}'
        return f'Error from server ({status["reason"]}): error when creating "{path}": {webhook}'.split("\n")
    details = status["details"]
    invalid = f'The {details["kind"]} "{details["name"]}" is invalid: '
    causes = [f"{cause['field']}: {cause['message']}" for cause in details["causes"]]
    return [invalid + causes[0]] if len(causes) == 1 else [invalid, *(f"* {cause}" for cause in causes)]


def create_review(pod: dict[str, Any], phase: str) -> dict[str, Any]:
    """Return the review of a pod's creation as the API server sends it in this phase."""
    metadata = pod["metadata"]
    stored = pod if phase == "mutate" else {**pod, "metadata": {**metadata, "uid": str(uuid.uuid4())}}
    kind = {"group": "", "version": "v1", "kind": "Pod"}
    resource = {"group": "", "version": "v1", "resource": "pods"}
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": str(uuid.uuid4()),
            "kind": kind,
            "resource": resource,
            "requestKind": kind,
            "requestResource": resource,
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "operation": "CREATE",
            "userInfo": {"username": "you", "groups": ["system:authenticated"]},
            "object": stored,
            "oldObject": None,
            "dryRun": False,
            "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"},
        },
    }


def _parse_pod(text: str) -> dict[str, Any]:
    """Parse a pod and copy each limit to a missing request, as the API server does."""
    document = next(read_documents(text, DEFAULT_LIMITS))
    pod: dict[str, Any] = msgspec.json.decode(to_json(document.root, DEFAULT_LIMITS.expanded))
    for container in pod["spec"]["containers"]:
        resources = container["resources"]
        resources["requests"] = {**resources["limits"], **resources.get("requests", {})}
    return pod
