"""The demonstration's words: as kubectl has them."""

import http.server
import json
import ssl
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path
from threading import Thread

import pytest
import yaml

from certs.certificate_names import CertificateNames
from certs.renewal import issue
from webhook.admission.request import CREATE, decode_review
from webhook.cli.demo.demo_files import DEMO_PODS, DemoFiles
from webhook.cli.demo.demonstration import Demonstration, NoDecisionError, create_review, format_kubectl_output


def invalid(*messages: str) -> dict[str, object]:
    """An answer that refuses, for these causes."""
    causes = [{"field": "spec", "message": message} for message in messages]
    details = {"kind": "Pod", "name": "p", "causes": causes}
    return {"allowed": False, "status": {"reason": "Invalid", "message": "not shown", "details": details}}


def test_a_pod_that_goes_in_is_created() -> None:
    """With warnings before it."""
    answer = {"allowed": True, "warnings": ["one", "two"]}
    assert format_kubectl_output("p", "p.yaml", "validate", answer) == ["Warning: one", "Warning: two", "pod/p created"]


def test_what_is_invalid_is_told_by_its_causes() -> None:
    """One in the same line, several below each other, as kubectl has it in e2e/cases/with."""
    assert format_kubectl_output("p", "p.yaml", "mutate", invalid("no")) == ['The Pod "p" is invalid: spec: no']
    several = ['The Pod "p" is invalid: ', "* spec: no", "* spec: never"]
    assert format_kubectl_output("p", "p.yaml", "mutate", invalid("no", "never")) == several


def test_any_other_refusal_names_reason_file_and_webhook() -> None:
    """As `kubectl apply` prints what the API server answers."""
    answer = {"allowed": False, "status": {"reason": "Forbidden", "message": "no room"}}
    line = 'Error from server (Forbidden): error when creating "p.yaml": '
    line += 'admission webhook "validate.tallygate.dev" denied the request: no room'
    assert format_kubectl_output("p", "p.yaml", "validate", answer) == [line]


@pytest.mark.parametrize("phase", ["mutate", "validate"])
@pytest.mark.parametrize("name", DEMO_PODS)
def test_reviews_are_what_the_gate_reads(name: str, phase: str) -> None:
    """With a UID for the pod once it is validated, as the API server gives it."""
    pod = yaml.safe_load(DEMO_PODS[name])
    asked = decode_review(json.dumps(create_review(pod, phase)).encode())
    assert (asked.kind, asked.operation, asked.namespace) == ("Pod", CREATE, "team-a")
    assert ("uid" in json.loads(bytes(asked.object))["metadata"]) == (phase == "validate")


def test_a_gate_that_fails_is_not_the_users_fault(tmp_path: Path) -> None:
    """What it answered is told, in place of a verdict that nobody gave."""
    files = DemoFiles(tmp_path)
    files.write()
    issue(files.certificate_folder, CertificateNames((), (ip_address("127.0.0.1"),)), datetime.now(UTC))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate_folder / "tls.crt", files.certificate_folder / "tls.key")
    with http.server.HTTPServer(("127.0.0.1", 0), _Failing) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        Thread(target=server.handle_request, daemon=True).start()
        with pytest.raises(NoDecisionError, match="the gate answered 500 to good: no idea"):
            Demonstration(files, f"https://127.0.0.1:{server.server_port}").show()


class _Failing(http.server.BaseHTTPRequestHandler):
    """Answers everything with 500."""

    def do_POST(self) -> None:
        """Fail."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(500)
        self.send_header("Content-Length", "7")
        self.end_headers()
        self.wfile.write(b"no idea")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- likewise
        """Say nothing."""
