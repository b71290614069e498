"""A gate that serves its API server alone: the files of docs/operate/security.md, tried as they are written there."""

import json
import re
import ssl
import subprocess
from http.client import HTTPSConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from e2e.gates.process import GateProcess
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


def _send_review(host: str, authorities: Path) -> int:
    """Send a review without a client certificate, and return the status."""
    context = ssl.create_default_context(cafile=str(authorities))
    connection = HTTPSConnection(host, context=context, timeout=30)
    try:
        connection.request("POST", "/v1/admit/validate", json.dumps({}))
        return connection.getresponse().status
    finally:
        connection.close()


def test_with_the_files_of_the_page_the_api_server_is_served_and_no_stranger(tmp_path: Path) -> None:
    certified, open_gate = (
        GateProcess(tmp_path / name, arguments=arguments)
        for name, arguments in (
            ("certified", (f"--client-ca-file={tmp_path / 'callers-ca.crt'}",)),
            ("open", ()),
        )
    )
    host = urlsplit(certified.reached.base).netloc
    configuration = _write_files(tmp_path, host)
    with LocalCluster((f"--admission-control-config-file={configuration}",)) as cluster:
        for gate in (certified, open_gate):
            gate.start()
        try:
            register(cluster, certified)  # returns once the API server has called it in both phases
            with pytest.raises((ssl.SSLError, ConnectionError)):
                _send_review(host, certified.certificates / "ca.crt")
            other = urlsplit(open_gate.reached.base).netloc
            assert _send_review(other, open_gate.certificates / "ca.crt") == 400  # it reads what a stranger sends
        finally:
            for gate in (certified, open_gate):
                gate.stop()
