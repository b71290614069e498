"""A tenant as most clusters have them: bound to `edit` in one namespace, and with no other right."""

import base64
import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any
from uuid import uuid4

import httpx

from e2e.namespaces import until_it_takes_pods
from e2e.ports import Cluster
from e2e.said import said
from e2e.service_account import as_service_account
from e2e.waiting import until

_NAME = "tenant"
_WITHIN = 240.0  # seconds, until the rights are known to the API server
_ANSWER = 60.0


class Tenant:
    """The ServiceAccount `tenant` of a namespace, by a token of its own."""

    def __init__(self, cluster: Cluster, namespace: str, folder: Path) -> None:
        """Make it in a namespace that is there, and give it `edit` there.

        Raises:
            ClusterError: the API server refuses something.
        """
        self.namespace = namespace
        self._cluster = cluster
        said(cluster, "create", "serviceaccount", _NAME, f"--namespace={namespace}")
        account = f"--serviceaccount={namespace}:{_NAME}"
        said(cluster, "create", "rolebinding", _NAME, f"--namespace={namespace}", "--clusterrole=edit", account)
        self._kubeconfig = as_service_account(cluster, namespace, _NAME, folder / f"{namespace}.kubeconfig")
        asks = ("auth", "can-i", "create", "pods")
        until("the tenant has his rights", lambda: self.kubectl(*asks).returncode == 0, _WITHIN)

    def kubectl(self, *args: str, stdin: str | None = None) -> CompletedProcess[str]:
        """Run kubectl as the tenant, in his namespace."""
        here = (f"--kubeconfig={self._kubeconfig}", f"--namespace={self.namespace}")
        return self._cluster.kubectl(*here, *args, stdin=stdin)

    def create(self, manifest: dict[str, Any], *args: str) -> CompletedProcess[str]:
        """What kubectl says when he creates that."""
        return self.kubectl("create", "--filename=-", *args, stdin=json.dumps(manifest))

    @contextmanager
    def http(self, connections: int) -> Iterator[httpx.Client]:
        """A client with his token, whose base is the API of his namespace; kubectl is too slow for many requests."""
        config = json.loads(self._kubeconfig.read_text())
        server, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        trust = ssl.create_default_context(cadata=base64.b64decode(server["certificate-authority-data"]).decode())
        with httpx.Client(
            base_url=f"{server['server']}/api/v1/namespaces/{self.namespace}",
            headers={"Authorization": f"Bearer {user['token']}"},
            verify=trust,
            limits=httpx.Limits(max_connections=connections),
            timeout=_ANSWER,
            trust_env=False,
        ) as client:
            yield client


@contextmanager
def tenant(cluster: Cluster, folder: Path, **labels: str) -> Iterator[Tenant]:
    """A tenant in a new namespace with these labels, for as long as the block runs.

    Raises:
        ClusterError: the API server refuses something.
    """
    name = f"tenant-{uuid4().hex[:8]}"
    metadata = {"name": name, "labels": labels}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
    said(cluster, "create", "--filename=-", stdin=json.dumps(namespace))
    try:
        until_it_takes_pods(cluster, name)
        yield Tenant(cluster, name, folder)
    finally:
        said(cluster, "delete", "namespace", name, "--wait=false")
