"""A gate that serves its API server alone: the files of docs/operate/security.md, tried as they are written there."""

import json
import re
import ssl
import subprocess
from http.client import BadStatusLine, HTTPSConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from e2e.gates.process import GateProcess
from e2e.gates.relay import RelayedGate
from e2e.local.cluster import LocalCluster
from e2e.registering import register

_PAGE = Path(__file__).parents[1] / "docs" / "operate" / "security.md"
_FOLDER = "/etc/kubernetes/tallygate"
_SERVICE = "tallygate.tallygate-system.svc"
_BLOCK = re.compile(r"```(?:yaml|sh)\n# ([a-z.-]+)\n(.*?)```", re.DOTALL)


def _read_blocks() -> dict[str, str]:
    """Return the files and the commands of the page by the name in their first line."""
    return dict(_BLOCK.findall(_PAGE.read_text(encoding="utf-8")))


def _write_files(folder: Path, host: str) -> Path:
    """Make certificates and files as the page shows, for a gate at another address; return the configuration."""
    blocks = _read_blocks()
    subprocess.run(["/bin/sh", "-ec", blocks["certificates"]], cwd=folder, check=True, capture_output=True)  # noqa: S603
    for name in ("admission.yaml", "webhooks.kubeconfig"):
        (folder / name).write_text(blocks[name].replace(_FOLDER, str(folder)).replace(_SERVICE, host))
    return folder / "admission.yaml"


def _send_review(host: str, authorities: Path, certificate: Path | None = None) -> int:
    """Send a review, with a client certificate and its key or without; return the status."""
    context = ssl.create_default_context(cafile=str(authorities))
    if certificate is not None:
        context.load_cert_chain(certificate, certificate.with_suffix(".key"))
    connection = HTTPSConnection(host, context=context, timeout=30)
    try:
        connection.request("POST", "/v1/admit/validate", json.dumps({}))
        return connection.getresponse().status
    finally:
        connection.close()


def _issue_for_stranger(folder: Path) -> Path:
    """Let the authority of the page sign a certificate with another name; return its file."""
    commands = re.sub(r"(?m)^openssl req -x509.*\n.*\n", "", _read_blocks()["certificates"])
    commands = commands.replace("/CN=kube-apiserver", "/CN=stranger").replace("apiserver.", "stranger.")
    subprocess.run(["/bin/sh", "-ec", commands], cwd=folder, check=True, capture_output=True)  # noqa: S603
    return folder / "stranger.crt"


def _try_gates(folder: Path, certified: GateProcess) -> None:
    """Register a gate that verifies clients, and send reviews to it, and to one that does not."""
    open_gate = GateProcess(folder / "open")
    host, other = (urlsplit(gate.reached.base).netloc for gate in (certified, open_gate))
    configuration = _write_files(folder, host)
    with LocalCluster((f"--admission-control-config-file={configuration}",)) as cluster:
        for gate in (certified, open_gate):
            gate.start()
        try:
            register(cluster, certified)  # returns once the API server has called it in both phases
            with pytest.raises((ssl.SSLError, ConnectionError, BadStatusLine)):
                _send_review(host, certified.certificates / "ca.crt")
            authorities = certified.certificates / "ca.crt"
            named, stranger = folder / "apiserver.crt", _issue_for_stranger(folder)
            statuses = [_send_review(host, authorities, each) for each in (named, stranger)]
            assert statuses == [400, 403 if isinstance(certified, RelayedGate) else 400]
            assert _send_review(other, open_gate.certificates / "ca.crt") == 400  # it reads what a stranger sends
        finally:
            for gate in (certified, open_gate):
                gate.stop()


def test_with_the_files_of_the_page_the_api_server_is_served_and_no_stranger(tmp_path: Path) -> None:
    arguments = (f"--client-ca-file={tmp_path / 'callers-ca.crt'}",)
    _try_gates(tmp_path, GateProcess(tmp_path / "certified", arguments=arguments))


def test_behind_a_relay_a_client_of_the_authority_needs_the_name_too(tmp_path: Path) -> None:
    arguments = (f"--client-ca-file={tmp_path / 'callers-ca.crt'}", "--client-names=kube-apiserver")
    _try_gates(tmp_path, RelayedGate(tmp_path / "certified", arguments))
