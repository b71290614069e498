"""A small HTTPS server with the part of the Kubernetes API that certificates need, and with responses set by a test.

The suite in e2e/ uses real API servers; this one gives the responses that a real one rarely gives.
"""

import json
import ssl
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml

from tallygate_certs.certificate_names import parse_names
from tallygate_certs.renewal import issue

_MAX_ENDLESS_BYTES = 256 << 20  # so that a client that reads everything fails its case and not the machine
_PREFIX = "/apis/admissionregistration.k8s.io/v1/"


@dataclass
class CertificateApiServer:
    """The objects by path, the received requests, and the responses that a test has set.

    `watchers` counts the open watches by the path of their object; a test that changes `objects` calls
    `notify_watchers`.
    `conflicting_writes` is the number of writes by another client, each just before a patch. `fixed_response` replaces
    every response. `headers` override those of each response, whose last `withheld_bytes` bytes are not sent.
    `endless_body` is sent repeatedly for as long as the client reads: `endless_bytes_sent` counts its bytes, and
    `is_sending_endless` is true meanwhile.
    """

    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    watchers: Counter[str] = field(default_factory=Counter)
    condition: threading.Condition = field(default_factory=threading.Condition)
    is_stopped: bool = False
    may_watch: bool = True
    conflicting_writes: int = 0
    fixed_response: tuple[int, bytes] | None = None
    methods: list[str] = field(default_factory=list)
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    connections: int = 0
    withheld_bytes: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    endless_body: bytes = b""
    endless_bytes_sent: int = 0
    is_sending_endless: bool = False

    def add(self, kind: str, name: str, webhooks: list[dict[str, Any]]) -> dict[str, Any]:
        """Store a webhook configuration, and return it."""
        made = {"kind": kind, "metadata": {"name": name, "resourceVersion": "1"}, "webhooks": webhooks}
        self.objects[f"{_PREFIX}{kind.lower()}s/{name}"] = made
        return made

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        """Return the status and the body of the response to a request."""
        self.methods.append(method)
        if self.fixed_response is not None:
            return self.fixed_response
        status, content = self._handle(method, path, body)
        self.notify_watchers()
        return status, content

    def _handle(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        if method == "POST":
            return self._create(path, json.loads(body))
        found = self.objects.get(path)
        if found is None:
            return 404, _encode_status("not found")
        if method == "PUT":
            return self._replace(path, found, json.loads(body))
        if method == "PATCH" and not self._patch(found, json.loads(body)):
            return 409, _encode_status("the object has been modified")
        return 200, json.dumps(found).encode()

    def notify_watchers(self) -> None:
        """Wake all watches, so that they report the current objects."""
        with self.condition:
            self.condition.notify_all()

    def stop_watches(self) -> None:
        """End all watches."""
        self.is_stopped = True
        self.notify_watchers()

    def stream_events(self, path: str) -> Iterator[bytes]:
        """Yield the watch events of one object: its current state, then every change."""
        seen, line = None, b""
        with self.condition:
            self.watchers[path] += 1
        try:
            while not self.is_stopped:
                with self.condition:
                    self.condition.wait_for(partial(self._has_changed, path, seen))
                    kind = "DELETED" if path not in self.objects else "MODIFIED" if seen else "ADDED"
                    seen, line = self._read_version(path), json.dumps({"type": kind, "object": {}}).encode()
                yield line + b"\n"
        finally:
            with self.condition:
                self.watchers[path] -= 1

    def _has_changed(self, path: str, seen: str | None) -> bool:
        return self.is_stopped or self._read_version(path) != seen

    def _read_version(self, path: str) -> str | None:
        found = self.objects.get(path)
        return found["metadata"]["resourceVersion"] if found else None

    def _create(self, path: str, sent: dict[str, Any]) -> tuple[int, bytes]:
        path = f"{path}/{sent['metadata']['name']}"
        if path in self.objects:
            return 409, _encode_status("already exists")
        sent["metadata"]["resourceVersion"] = "1"
        self.objects[path] = sent
        return 201, json.dumps(sent).encode()

    def _replace(self, path: str, stored: dict[str, Any], sent: dict[str, Any]) -> tuple[int, bytes]:
        if sent["metadata"]["resourceVersion"] != stored["metadata"]["resourceVersion"]:
            return 409, _encode_status("the object has been modified")
        self.objects[path] = sent
        _increase_version(sent)
        return 200, json.dumps(sent).encode()

    def _patch(self, found: dict[str, Any], operations: list[dict[str, Any]]) -> bool:
        if self.conflicting_writes:
            self.conflicting_writes -= 1
            _increase_version(found)
        version, *others = operations
        assert version["path"] == "/metadata/resourceVersion"
        if version["value"] != found["metadata"]["resourceVersion"]:
            return False
        for each in others:
            _, webhooks, index, client, bundle = each["path"].split("/")
            found[webhooks][int(index)][client][bundle] = each["value"]
        _increase_version(found)
        return True


def _increase_version(found: dict[str, Any]) -> None:
    found["metadata"]["resourceVersion"] = str(int(found["metadata"]["resourceVersion"]) + 1)


def _encode_status(message: str) -> bytes:
    return json.dumps({"kind": "Status", "message": message}).encode()


class _Handler(BaseHTTPRequestHandler):
    """The handler of one request."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # header and body are two writes, of which the second would wait 40 ms
    api: CertificateApiServer

    def setup(self) -> None:
        super().setup()
        self.api.connections += 1

    def do_GET(self) -> None:
        query = parse_qs(urlsplit(self.path).query)
        if "watch" not in query:
            self._answer()
        elif self.api.may_watch and self.api.fixed_response is None:
            self._send_watch(query["fieldSelector"][0].removeprefix("metadata.name="))
        else:
            self._send(*(self.api.fixed_response or (403, _encode_status("may not watch"))))

    def do_PATCH(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_PUT(self) -> None:
        self._answer()

    def log_message(self, *_: object) -> None:
        """Log nothing."""

    def _send_watch(self, name: str) -> None:
        self._send_headers(200, {"Connection": "close"})
        if self.api.endless_body:
            self._send_endless_body()
            return
        with suppress(OSError):  # the watch client has disconnected
            for event in self.api.stream_events(f"{urlsplit(self.path).path}/{name}"):
                self.wfile.write(event)

    def _answer(self) -> None:
        sent = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.api.requests.append((self.path, dict(self.headers)))
        self._send(*self.api.answer(self.command, self.path.partition("?")[0], sent))

    def _send(self, code: int, body: bytes) -> None:
        if self.api.endless_body:
            self._send_headers(code, {"Connection": "close"})
            self._send_endless_body()
            return
        self._send_headers(code, {"Content-Length": str(len(body))})
        self.wfile.write(body[: len(body) - self.api.withheld_bytes])
        self.close_connection = bool(self.api.withheld_bytes)

    def _send_headers(self, code: int, headers: dict[str, str]) -> None:
        self.send_response(code)
        for each in ({"Content-Type": "application/json"} | headers | self.api.headers).items():
            self.send_header(*each)
        self.end_headers()

    def _send_endless_body(self) -> None:
        self.api.is_sending_endless = True
        with suppress(OSError):  # the client has disconnected
            while not self.api.is_stopped and self.api.endless_bytes_sent < _MAX_ENDLESS_BYTES:
                self.wfile.write(self.api.endless_body)
                self.api.endless_bytes_sent += len(self.api.endless_body)
        self.api.is_sending_endless = False


@contextmanager
def run_api_server(api: CertificateApiServer, folder: Path) -> Iterator[Path]:
    """Serve an API on a local port, and yield the path of a kubeconfig for it."""
    issue(folder, parse_names(["127.0.0.1"]), datetime.now(UTC))

    handler = type("Handler", (_Handler,), {"api": api})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield write_kubeconfig(folder, f"https://127.0.0.1:{server.server_port}")
        finally:
            api.stop_watches()
            server.shutdown()
            thread.join()


def write_kubeconfig(folder: Path, server: str, **cluster: str) -> Path:
    """Write a kubeconfig for a server whose CA certificate is in a folder."""
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
