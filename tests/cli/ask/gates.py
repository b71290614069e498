"""Servers of asks with certificates of their own, and kubeconfigs of those who ask."""

import json
import ssl
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tallygate.cli.app import root
from tallygate_certs.certificate_names import parse_names
from tallygate_certs.renewal import issue
from tests.kube.raw_server import Part, RawServer, full_response

SERVICE = "tallygate-ask.tallygate-system.svc"
CONFIG_MAP = "/api/v1/namespaces/tallygate-system/configmaps/tallygate-ask"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/tallygate-system/endpointslices"
FORWARD = "/api/v1/namespaces/tallygate-system/pods/ask-1/portforward"
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: third, namespace: team-a}
spec: {containers: [{name: main, image: x, resources: {requests: {cpu: 2}}}]}
"""


def issue_certificates(folder: Path, *names: str) -> ssl.SSLContext:
    """Write an authority and a certificate into a folder, and return the context of a server with them."""
    folder.mkdir(exist_ok=True)
    issue(folder, parse_names(names or ("localhost", "127.0.0.1", SERVICE)), datetime.now(UTC))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    return context


def write_user(folder: Path, server: str = "https://127.0.0.1:1", **user: Any) -> Path:
    """Write a kubeconfig of a user with these fields, else with a token; return its path."""
    content = {
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "team-a"}}],
        "users": [{"name": "u", "user": user or {"token": "t0ken"}}],
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(content))
    return path


def run_ask(kubeconfig: Path, *arguments: str, stdin: str = POD) -> Result:
    """Run the command for stdin."""
    words = ["ask", "-f", "-", "--kubeconfig", str(kubeconfig), *arguments]
    return CliRunner().invoke(root, words, input=stdin, catch_exceptions=False)


def name_gate(server: RawServer, folder: Path) -> Sequence[str]:
    """Return the options for a gate with the certificates of a folder."""
    return "--url", f"https://localhost:{server.port}", "--ca", str(folder / "ca.crt")


def create_answer(*objects: Any, **fields: Any) -> Any:
    """Return an AskAnswer of these objects."""
    summary = {"objects": len(objects), "errors": 0, "warnings": 0, "notes": 0, "verdicts": []}
    return {
        "apiVersion": "tallygate.dev/v1",
        "kind": "AskAnswer",
        "revision": "7",
        "asOf": "2026-01-01T10:00:00Z",
        "objects": list(objects),
        "notModelled": [],
        "remarks": [],
        "summary": summary,
        **fields,
    }


def create_object(*findings: Any, **fields: Any) -> Any:
    """Return the answer about the pod."""
    of = {"kind": "Pod", "namespace": "team-a", "name": "third"}
    return {"object": of, "read": True, "admitted": None, "findings": list(findings), "predictions": [], **fields}


def create_finding(line: int, level: str = "error", message: str = "too much") -> Any:
    """Return a finding about a line of the body."""
    of = {"kind": "Pod", "namespace": "team-a", "name": "third"}
    place = {"file": "<request>", "line": line, "column": 1, "document": 0, "source": ""}
    return place | {
        "level": level,
        "code": "TG201",
        "name": "over-cap",
        "message": message,
        "by": "cap gpus",
        "why": "",
        "field": "spec",
        "object": of,
    }


def send_json(content: Any) -> Sequence[Part]:
    """Return a response with status 200."""
    return [full_response(json.dumps(content).encode())]


def send_status(code: int, message: str, headers: str = "") -> Sequence[Part]:
    """Return a response with a Status."""
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code}
    return [full_response(json.dumps(status).encode(), f"{code} No", headers)]


def limit(monkeypatch: pytest.MonkeyPatch, **limits: float) -> None:
    """Set limits of the client for a test."""
    for name, value in limits.items():
        monkeypatch.setattr(f"tallygate.cli.ask.gate_client.{name}", value)
