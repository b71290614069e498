"""A small HTTPS server that speaks as much of an API server as certificates need, and refuses on demand.

What a real one does is shown in e2e/test_publish.py and e2e/test_certificates_kept.py; this one gives the answers that
a real one rarely gives.
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

from certs.certificate_names import parse_names
from certs.renewal import issue

_LONGEST_FLOOD = 256 << 20  # bytes, so that whoever reads all fails a case and not the machine
_PREFIX = "/apis/admissionregistration.k8s.io/v1/"


@dataclass
class Api:
    """Its objects by path, how often somebody else writes one before a patch arrives, and what it answers instead.

    `watchers` counts the watches under way, by the path of their object. Who changes `objects` by hand
    says so by `tell`. `asked` are the paths and headers that came, over so many `connections`. `headers` are said with
    each answer, in the place of what is said else, and of each the last `withheld` bytes do not come. Where there is a
    `flood`, that is the body, again and again for as long as it is taken: `flooded` is how much was, and `flooding`
    whether it still is.
    """

    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    watchers: Counter[str] = field(default_factory=Counter)
    news: threading.Condition = field(default_factory=threading.Condition)
    is_over: bool = False
    may_watch: bool = True
    rivals: int = 0
    refusal: tuple[int, bytes] | None = None
    requests: list[str] = field(default_factory=list)
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    connections: int = 0
    withheld: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    flood: bytes = b""
    flooded: int = 0
    flooding: bool = False

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
        code, said = self._done(method, path, body)
        self.tell()
        return code, said

    def _done(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
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

    def tell(self) -> None:
        """Let those who watch see what there is now."""
        with self.news:
            self.news.notify_all()

    def end(self) -> None:
        """Break off all watches."""
        self.is_over = True
        self.tell()

    def events(self, path: str) -> Iterator[bytes]:
        """What a watch of one object is sent: how it is, and each time that it is another."""
        seen, line = None, b""
        with self.news:
            self.watchers[path] += 1
        try:
            while not self.is_over:
                with self.news:
                    self.news.wait_for(partial(self._is_another, path, seen))
                    kind = "DELETED" if path not in self.objects else "MODIFIED" if seen else "ADDED"
                    seen, line = self._version(path), json.dumps({"type": kind, "object": {}}).encode()
                yield line + b"\n"
        finally:
            with self.news:
                self.watchers[path] -= 1

    def _is_another(self, path: str, seen: str | None) -> bool:
        return self.is_over or self._version(path) != seen

    def _version(self, path: str) -> str | None:
        found = self.objects.get(path)
        return found["metadata"]["resourceVersion"] if found else None

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


class _Handler(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # header and body are two writes, of which the second would wait 40 ms
    api: Api

    def setup(self) -> None:
        super().setup()
        self.api.connections += 1

    def do_GET(self) -> None:
        query = parse_qs(urlsplit(self.path).query)
        if "watch" not in query:
            self._answer()
        elif self.api.may_watch and self.api.refusal is None:
            self._tell(query["fieldSelector"][0].removeprefix("metadata.name="))
        else:
            self._say(*(self.api.refusal or (403, _status("may not watch"))))

    def do_PATCH(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_PUT(self) -> None:
        self._answer()

    def log_message(self, *_: object) -> None:
        """Stay silent."""

    def _tell(self, name: str) -> None:
        self._begin(200, {"Connection": "close"})
        if self.api.flood:
            self._flood()
            return
        with suppress(OSError):  # who watched has gone
            for event in self.api.events(f"{urlsplit(self.path).path}/{name}"):
                self.wfile.write(event)

    def _answer(self) -> None:
        sent = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.api.asked.append((self.path, dict(self.headers)))
        self._say(*self.api.answer(self.command, self.path.partition("?")[0], sent))

    def _say(self, code: int, body: bytes) -> None:
        if self.api.flood:
            self._begin(code, {"Connection": "close"})
            self._flood()
            return
        self._begin(code, {"Content-Length": str(len(body))})
        self.wfile.write(body[: len(body) - self.api.withheld])
        self.close_connection = bool(self.api.withheld)

    def _begin(self, code: int, headers: dict[str, str]) -> None:
        self.send_response(code)
        for each in ({"Content-Type": "application/json"} | headers | self.api.headers).items():
            self.send_header(*each)
        self.end_headers()

    def _flood(self) -> None:
        self.api.flooding = True
        with suppress(OSError):  # who asked has heard enough
            while not self.api.is_over and self.api.flooded < _LONGEST_FLOOD:
                self.wfile.write(self.api.flood)
                self.api.flooded += len(self.api.flood)
        self.api.flooding = False


@contextmanager
def serving(api: Api, folder: Path) -> Iterator[Path]:
    """Serve it on this machine; gives a kubeconfig that leads there."""
    issue(folder, parse_names(["127.0.0.1"]), datetime.now(UTC))

    handler = type("Handler", (_Handler,), {"api": api})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield kubeconfig(folder, f"https://127.0.0.1:{server.server_port}")
        finally:
            api.end()
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
