"""A small HTTPS server that speaks as much of an API server as certificates need, and refuses on demand.

What a real one does is shown in e2e/test_publish.py and e2e/test_certificates_kept.py; this one gives the answers that
a real one rarely gives.
"""

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml

from certs.names import parse_names
from certs.renewal import issue

_PREFIX = "/apis/admissionregistration.k8s.io/v1/"


@dataclass
class Api:
    """Its objects by path, how often somebody else writes one before a patch arrives, and what it answers instead."""

    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    rivals: int = 0
    refusal: tuple[int, bytes] | None = None
    requests: list[str] = field(default_factory=list)

    def add(self, kind: str, name: str, webhooks: list[dict[str, Any]]) -> dict[str, Any]:
        """Store a configuration."""
        made = {"kind": kind, "metadata": {"name": name, "resourceVersion": "1"}, "webhooks": webhooks}
        self.objects[f"{_PREFIX}{kind.lower()}s/{name}"] = made
        return made

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        """Code and body."""
        self.requests.append(method)
        if self.refusal is not None:
            return self.refusal
        if method == "POST":
            return self._created(path, json.loads(body))
        found = self.objects.get(path)
        if found is None:
            return 404, _status("not found")
        if method == "PUT":
            return self._replaced(path, found, json.loads(body))
        if method == "PATCH" and not self._patched(found, json.loads(body)):
            return 409, _status("the object has been modified")
        return 200, json.dumps(found).encode()

    def _created(self, path: str, sent: dict[str, Any]) -> tuple[int, bytes]:
        path = f"{path}/{sent['metadata']['name']}"
        if path in self.objects:
            return 409, _status("already exists")
        sent["metadata"]["resourceVersion"] = "1"
        self.objects[path] = sent
        return 201, json.dumps(sent).encode()

    def _replaced(self, path: str, found: dict[str, Any], sent: dict[str, Any]) -> tuple[int, bytes]:
        if sent["metadata"]["resourceVersion"] != found["metadata"]["resourceVersion"]:
            return 409, _status("the object has been modified")
        self.objects[path] = sent
        _count_up(sent)
        return 200, json.dumps(sent).encode()

    def _patched(self, found: dict[str, Any], operations: list[dict[str, Any]]) -> bool:
        if self.rivals:
            self.rivals -= 1
            _count_up(found)
        version, *others = operations
        assert version["path"] == "/metadata/resourceVersion"
        if version["value"] != found["metadata"]["resourceVersion"]:
            return False
        for each in others:
            _, webhooks, index, client, bundle = each["path"].split("/")
            found[webhooks][int(index)][client][bundle] = each["value"]
        _count_up(found)
        return True


def _count_up(found: dict[str, Any]) -> None:
    found["metadata"]["resourceVersion"] = str(int(found["metadata"]["resourceVersion"]) + 1)


def _status(message: str) -> bytes:
    return json.dumps({"kind": "Status", "message": message}).encode()


@contextmanager
def serving(api: Api, folder: Path) -> Iterator[Path]:
    """Serve it on this machine; gives a kubeconfig that leads there."""
    issue(folder, parse_names(["127.0.0.1"]), datetime.now(UTC))

    class Handler(BaseHTTPRequestHandler):
        """One request."""

        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer()

        def do_PATCH(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def do_PUT(self) -> None:
            self._answer()

        def log_message(self, *_: object) -> None:
            """Stay silent."""

        def _answer(self) -> None:
            sent = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            code, body = api.answer(self.command, self.path.partition("?")[0], sent)
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(body)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield kubeconfig(folder, f"https://127.0.0.1:{server.server_port}")
        finally:
            server.shutdown()
            thread.join()


def kubeconfig(folder: Path, server: str, **cluster: str) -> Path:
    """A kubeconfig for a server whose authority lies in a folder."""
    named = {"server": server, "certificate-authority": str(folder / "ca.crt"), **cluster}
    path = folder / "kubeconfig"
    path.write_text(
        yaml.safe_dump(
            {
                "clusters": [{"name": "one", "cluster": named}],
                "users": [{"name": "jane", "user": {"token": "t"}}],
                "contexts": [{"name": "here", "context": {"cluster": "one", "user": "jane"}}],
                "current-context": "here",
            }
        )
    )
    return path
