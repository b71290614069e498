"""A tenant as most clusters have them: bound to `edit` in one namespace, and with no other right."""

import base64
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from subprocess import CompletedProcess
from uuid import uuid4

import httpx

from e2e.api import Answer, Api, Object, api
from e2e.namespaces import until_it_takes_pods
from e2e.ports import Cluster
from e2e.service_account import as_service_account
from e2e.trust import Trust
from e2e.waiting import until

_NAME = "tenant"
_WITHIN = 240.0  # seconds, until the rights are known to the API server
_ANSWER = 60.0


class Tenant:
    """The ServiceAccount `tenant` of a namespace, by a token of its own."""

    def __init__(self, cluster: Cluster, namespace: str, folder: Path) -> None:
        """Create it in an existing namespace, and grant it `edit` there.

        Raises:
            ClusterError: if the API server refuses something.
        """
        self.namespace = namespace
        self._cluster = cluster
        accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        api(cluster.kubeconfig).create(accounts, {"metadata": {"name": _NAME}})
        self.bind(_NAME)
        self._kubeconfig = as_service_account(cluster, namespace, _NAME, folder / f"{namespace}.kubeconfig")
        self.api = Api(self._kubeconfig)
        until("the tenant has his rights", lambda: self.api.ask("GET", self.pods).is_done, _WITHIN)

    @property
    def kubeconfig(self) -> Path:
        """The file with his token."""
        return self._kubeconfig

    @property
    def pods(self) -> str:
        """The path of the pods in his namespace."""
        return f"/api/v1/namespaces/{self.namespace}/pods"

    def bind(self, account: str) -> None:
        """Bind a ServiceAccount of his namespace to `edit` there, as the administrator.

        Raises:
            ClusterError: if the API server refuses it.
        """
        edit = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"}
        who = {"kind": "ServiceAccount", "name": account, "namespace": self.namespace}
        path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{self.namespace}/rolebindings"
        bound = {"metadata": {"name": account}, "roleRef": edit, "subjects": [who]}
        api(self._cluster.kubeconfig).create(path, bound)

    def kubectl(self, *args: str, stdin: str | None = None) -> CompletedProcess[str]:
        """Run kubectl as the tenant, in his namespace."""
        here = (f"--kubeconfig={self._kubeconfig}", f"--namespace={self.namespace}")
        return self._cluster.kubectl(*here, *args, stdin=stdin)

    def create(self, manifest: Object, *, dry: bool = False, headers: Mapping[str, str] | None = None) -> Answer:
        """Create this manifest, or dry-run it, and return the answer; `headers` go beside his own."""
        path = self.api.collection(manifest, self.namespace)
        return self.api.ask("POST", path, manifest, query={"dryRun": "All"} if dry else None, headers=headers)

    @contextmanager
    def http(self, connections: int) -> Iterator[httpx.Client]:
        """Yield a client with his token, whose base is the API of his namespace; kubectl is too slow for load."""
        config = json.loads(self._kubeconfig.read_text())
        server, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        trust = Trust(base64.b64decode(server["certificate-authority-data"]).decode())
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
    """Yield a tenant in a new namespace with these labels, for as long as the block runs.

    Raises:
        ClusterError: if the API server refuses something.
    """
    name, ours = f"tenant-{uuid4().hex[:8]}", api(cluster.kubeconfig)
    ours.create("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
    try:
        until_it_takes_pods(cluster, name)
        yield Tenant(cluster, name, folder)
    finally:
        ours.delete(f"/api/v1/namespaces/{name}")
