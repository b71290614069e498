"""The output of the demonstration has the format of kubectl."""

import http.server
import json
import socket
import ssl
import struct
import threading
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit

import pytest
import yaml

from tallygate.admission.request import CREATE, decode_review
from tallygate.cli.demo.demo_files import DEMO_PODS, DemoFiles
from tallygate.cli.demo.demonstration import (
    Demonstration,
    NoDecisionError,
    create_review,
    format_kubectl_output,
)
from tallygate.cli.demo.small_cluster import SmallCluster
from tallygate_certs.certificate_names import CertificateNames
from tallygate_certs.renewal import issue
from tests.server.process import eventually


def create_invalid_response(*messages: str) -> dict[str, object]:
    """Return a response that denies with these causes."""
    causes = [{"field": "spec", "message": message} for message in messages]
    details = {"kind": "Pod", "name": "p", "causes": causes}
    return {"allowed": False, "status": {"reason": "Invalid", "message": "not shown", "details": details}}


def test_an_allowed_pod_is_created() -> None:
    answer = {"allowed": True, "warnings": ["one", "two"]}
    assert format_kubectl_output("p", "p.yaml", "validate", answer) == ["Warning: one", "Warning: two", "pod/p created"]


def test_an_invalid_pod_is_reported_with_its_causes() -> None:
    """Print one cause in the same line, and several below each other, as kubectl does."""
    assert format_kubectl_output("p", "p.yaml", "mutate", create_invalid_response("no")) == [
        'The Pod "p" is invalid: spec: no'
    ]
    several = ['The Pod "p" is invalid: ', "* spec: no", "* spec: never"]
    assert format_kubectl_output("p", "p.yaml", "mutate", create_invalid_response("no", "never")) == several


def test_any_other_denial_names_reason_file_and_webhook() -> None:
    answer = {"allowed": False, "status": {"reason": "Forbidden", "message": "cap exceeded"}}
    line = 'Error from server (Forbidden): error when creating "p.yaml": '
    line += 'admission webhook "validate.tallygate.dev" denied the request: cap exceeded'
    assert format_kubectl_output("p", "p.yaml", "validate", answer) == [line]


@pytest.mark.parametrize("phase", ["mutate", "validate"])
@pytest.mark.parametrize("name", DEMO_PODS)
def test_reviews_can_be_decoded(name: str, phase: str) -> None:
    """Give the pod a UID before its validation, as the API server does."""
    pod = yaml.safe_load(DEMO_PODS[name])
    request = decode_review(json.dumps(create_review(pod, phase)).encode())
    assert (request.kind, request.operation, request.namespace) == ("Pod", CREATE, "team-a")
    assert ("uid" in json.loads(bytes(request.object))["metadata"]) == (phase == "validate")


def test_a_failure_of_the_gate_is_reported_as_such(tmp_path: Path) -> None:
    """Report its response in place of a verdict."""
    files = DemoFiles(tmp_path)
    files.write()
    issue(files.certificate_folder, CertificateNames((), (ip_address("127.0.0.1"),)), datetime.now(UTC))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate_folder / "tls.crt", files.certificate_folder / "tls.key")
    with http.server.HTTPServer(("127.0.0.1", 0), _FailingHandler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        Thread(target=server.handle_request, daemon=True).start()
        with pytest.raises(NoDecisionError, match="the gate answered 500 to good: no idea"):
            Demonstration(files, f"https://127.0.0.1:{server.server_port}").show()


class _FailingHandler(http.server.BaseHTTPRequestHandler):
    """A handler that responds with 500 to every request."""

    def do_POST(self) -> None:
        """Respond with 500."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(500)
        self.send_header("Content-Length", "7")
        self.end_headers()
        self.wfile.write(b"no idea")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- likewise
        """Log nothing."""


def test_a_client_that_ends_during_a_request_is_no_error(capfd: pytest.CaptureFixture[str]) -> None:
    """Reset connections whose request has no end yet, as the server of the pages does when it stops."""
    before = threading.active_count()
    with SmallCluster() as cluster:
        url = urlsplit(cluster.url)
        for _ in range(10):
            with socket.create_connection((url.hostname, url.port)) as connection:
                connection.sendall(b"POST /apis HTTP/1.1\r\nContent-Length: 9\r\n\r\n{")
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        assert eventually(lambda: threading.active_count() <= before + 1)
    assert capfd.readouterr().err == ""
