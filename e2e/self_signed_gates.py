"""Gates that keep their certificates in a Secret, with the rights of the shipped ServiceAccount and nothing more."""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from e2e.api import api
from e2e.gates.process import GateProcess
from e2e.ports import Cluster
from e2e.service_account import gates_account
from tallygate_certs.secret_state import SecretState, parse_secret_state

OWN = "tallygate-system"
SECRET = "tallygate-tls"  # noqa: S105  its name
_PATH = f"/api/v1/namespaces/{OWN}/secrets/{SECRET}"


class SelfSignedGate(GateProcess):
    """`tallygate serve --tls-secret`, with a propagation delay of `settling` seconds."""

    def __init__(self, folder: Path, kubeconfig: Path, settling: int = 3) -> None:
        """Prepare it; it is not started yet."""
        arguments = (
            f"--tls-secret={OWN}/{SECRET}",
            f"--tls-dir={folder / 'served'}",
            f"--ca-propagation-delay={settling}s",
            f"--kubeconfig={kubeconfig}",
        )
        super().__init__(folder, arguments=arguments)
        self._command = tuple(each for each in self._command if not each.startswith(("--tls-cert", "--tls-key")))

    def events(self, name: str) -> list[dict[str, Any]]:
        """Return the lines of its log about one event."""
        lines = [json.loads(line) for line in self.log().splitlines() if line.startswith("{")]
        return [line for line in lines if line["event"] == name]

    def serves(self) -> str:
        """Return the fingerprint of its serving certificate."""
        text: str = self.readiness()["checks"]["certificate"]["fingerprint"]
        return text


@contextmanager
def prepare_account(cluster: Cluster, folder: Path) -> Iterator[Path]:
    """Create the namespace and the ServiceAccount with its rights, and no Secret; yield a kubeconfig of the account.

    Raises:
        ClusterError: if the API server refuses something.
    """
    kubeconfig = gates_account(cluster, folder, "self-signed")
    delete_secret(cluster)
    try:
        yield kubeconfig
    finally:
        delete_secret(cluster)


def read_secret(cluster: Cluster) -> SecretState | None:
    """Return the state of the Secret; None if it is missing."""
    found = api(cluster.kubeconfig).find(_PATH)
    if found is None:
        return None
    data = {name: base64.b64decode(value) for name, value in found["data"].items()}
    return parse_secret_state(data, found["metadata"].get("annotations", {}))


def request_renewal(cluster: Cluster, what: str) -> None:
    """Request a renewal by the annotation of docs/operate/certificates.md."""
    api(cluster.kubeconfig).patch(_PATH, {"metadata": {"annotations": {"tallygate.dev/renew": what}}})


def delete_secret(cluster: Cluster) -> None:
    """Delete the Secret, if it exists."""
    api(cluster.kubeconfig).delete(_PATH)
