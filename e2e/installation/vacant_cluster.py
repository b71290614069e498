"""A cluster with nodes that run images, from which the site's own gate is removed for a while."""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from e2e.command_output import run_kubectl
from e2e.gates.deployment import GateDeployment
from e2e.installation.leftovers import find_leftovers
from e2e.installation.rendered import Object
from e2e.installation.uninstalling import uninstall
from e2e.installing import install
from e2e.ports import Cluster, NotHereError, Site
from e2e.registering import unregister
from tallygate.admission.webhook_configuration import CONFIGURATION_NAME, DEFAULT_NAMESPACE
from tallygate_certs.cert_files import CHAIN_FILE, KEY_FILE


@dataclass(frozen=True, slots=True)
class VacantCluster:
    """A cluster without the gate, whose nodes have its image; `before` are objects that have its name all the same."""

    cluster: Cluster
    image: str
    before: frozenset[str]


@contextmanager
def vacate(site: Site) -> Iterator[VacantCluster]:
    """Remove the site's gate for as long as the block runs, and everything that the block leaves of other gates.

    Raises:
        NotHereError: if the gate does not run in the cluster.
        ClusterError: if something cannot be removed or restored; the text is kubectl's.
    """
    gate, cluster = site.gate, site.cluster
    if not isinstance(gate, GateDeployment):
        raise NotHereError("it takes nodes that run images")
    image = find_gate_image(cluster)
    gate.stop()
    unregister(cluster)
    uninstall(cluster)
    try:
        yield VacantCluster(cluster, image, frozenset(find_leftovers(cluster)))
    finally:
        uninstall(cluster)
        install(cluster, image)
        certificate = json.dumps(_certificate(gate))
        run_kubectl(cluster, "apply", "--server-side", "--force-conflicts", "--filename=-", stdin=certificate)
        gate.start()


def find_gate_image(cluster: Cluster) -> str:
    """Return the image of the installed gate, which the nodes have.

    Raises:
        ClusterError: if it is not installed.
    """
    text = run_kubectl(
        cluster, "get", "deployment", CONFIGURATION_NAME, f"--namespace={DEFAULT_NAMESPACE}", "--output=json"
    )
    (container,) = json.loads(text)["spec"]["template"]["spec"]["containers"]
    image: str = container["image"]
    return image


def _certificate(gate: GateDeployment) -> Object:
    """Return the Secret of the site's own gate, whose certificate is made by hand."""
    files = {
        name: base64.b64encode((gate.certificates / name).read_bytes()).decode() for name in (CHAIN_FILE, KEY_FILE)
    }
    metadata = {"name": "tallygate-tls", "namespace": DEFAULT_NAMESPACE}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "kubernetes.io/tls", "data": files}
