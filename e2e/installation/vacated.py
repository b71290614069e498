"""A cluster with nodes that run images, where the site's own gate makes way, and comes back as it was."""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from certs.cert_files import CHAIN_FILE, KEY_FILE
from e2e.gates.deployment import GateDeployment
from e2e.installation.remains import remains
from e2e.installation.rendered import Object
from e2e.installation.uninstalling import uninstall
from e2e.installing import install
from e2e.ports import Cluster, NotHereError, Site
from e2e.registering import unregister
from e2e.said import said
from webhook.admission.webhook_configuration import CONFIGURATION_NAME, DEFAULT_NAMESPACE


@dataclass(frozen=True, slots=True)
class Vacant:
    """A cluster without the gate, whose nodes have its image; `before` is what is called like it all the same."""

    cluster: Cluster
    image: str
    before: frozenset[str]


@contextmanager
def vacated(site: Site) -> Iterator[Vacant]:
    """Take the site's gate away for as long as the block runs, and whatever the block leaves of others afterwards.

    Raises:
        NotHereError: the gate does not run in the cluster.
        ClusterError: something does not go, or does not come back; the text is kubectl's.
    """
    gate, cluster = site.gate, site.cluster
    if not isinstance(gate, GateDeployment):
        raise NotHereError("it takes nodes that run images")
    text = said(cluster, "get", "deployment", CONFIGURATION_NAME, f"--namespace={DEFAULT_NAMESPACE}", "--output=json")
    (container,) = json.loads(text)["spec"]["template"]["spec"]["containers"]
    gate.stop()
    unregister(cluster)
    uninstall(cluster)
    try:
        yield Vacant(cluster, container["image"], frozenset(remains(cluster)))
    finally:
        uninstall(cluster)
        install(cluster, container["image"])
        certificate = json.dumps(_certificate(gate))
        said(cluster, "apply", "--server-side", "--force-conflicts", "--filename=-", stdin=certificate)
        gate.start()


def _certificate(gate: GateDeployment) -> Object:
    """The Secret of the site's own gate, whose certificate is made by hand."""
    files = {
        name: base64.b64encode((gate.certificates / name).read_bytes()).decode() for name in (CHAIN_FILE, KEY_FILE)
    }
    metadata = {"name": "tallygate-tls", "namespace": DEFAULT_NAMESPACE}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "kubernetes.io/tls", "data": files}
