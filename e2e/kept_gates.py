"""Gates that keep their certificates in a Secret, with the rights of the shipped ServiceAccount and nothing more."""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from certs.secret_state import SecretState, parse_secret_state
from e2e.api import api
from e2e.gates.process import GateProcess
from e2e.ports import Cluster
from e2e.service_account import gates_account

OWN = "tallygate-system"
SECRET = "tallygate-tls"  # noqa: S105  its name
_PATH = f"/api/v1/namespaces/{OWN}/secrets/{SECRET}"


class KeptGate(GateProcess):
    """`tallygate serve --tls-secret`; what it is to settle in takes `settling` seconds."""

    def __init__(self, folder: Path, kubeconfig: Path, settling: int = 3) -> None:
        """Not started yet."""
        arguments = (
            f"--tls-secret={OWN}/{SECRET}",
            f"--tls-dir={folder / 'served'}",
            f"--ca-propagation-delay={settling}s",
            f"--kubeconfig={kubeconfig}",
        )
        super().__init__(folder, arguments=arguments)
        self._command = tuple(each for each in self._command if not each.startswith(("--tls-cert", "--tls-key")))

    def events(self, name: str) -> list[dict[str, Any]]:
        """The lines of its log about one thing."""
        lines = [json.loads(line) for line in self.log().splitlines() if line.startswith("{")]
        return [line for line in lines if line["event"] == name]

    def serves(self) -> str:
        """The fingerprint of what it serves with."""
        text: str = self.readiness()["checks"]["certificate"]["fingerprint"]
        return text


@contextmanager
def ground(cluster: Cluster, folder: Path) -> Iterator[Path]:
    """The namespace, the ServiceAccount and its rights, and no Secret; a kubeconfig that is the ServiceAccount.

    Raises:
        ClusterError: the API server refuses something.
    """
    kubeconfig = gates_account(cluster, folder, "self-signed")
    delete_secret(cluster)
    try:
        yield kubeconfig
    finally:
        delete_secret(cluster)


def kept(cluster: Cluster) -> SecretState | None:
    """What the Secret holds, if it is there."""
    found = api(cluster.kubeconfig).find(_PATH)
    if found is None:
        return None
    data = {name: base64.b64decode(value) for name, value in found["data"].items()}
    return parse_secret_state(data, found["metadata"].get("annotations", {}))


def ask(cluster: Cluster, what: str) -> None:
    """Ask for a renewal, by what docs/certificates.md lets somebody annotate."""
    api(cluster.kubeconfig).patch(_PATH, {"metadata": {"annotations": {"tallygate.dev/renew": what}}})


def delete_secret(cluster: Cluster) -> None:
    """Let it be gone, whether it was there or not."""
    api(cluster.kubeconfig).delete(_PATH)
