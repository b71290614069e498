"""A kubeconfig that is a ServiceAccount: what asks with it has that one's rights, and nothing more."""

import json
from functools import partial
from pathlib import Path

from e2e.namespaces import gates_namespace
from e2e.ports import Cluster
from e2e.said import said
from e2e.waiting import until
from webhook.admission.registration import NAME, NAMESPACE

_KUSTOMIZE = Path(__file__).parents[1] / "deploy" / "kustomize"
_WITHIN = 240.0  # seconds
_LAST = {
    "followed": ("watch", "pods"),
    "audit": ("list", "cronjobs.batch"),
    "self-signed": ("patch", f"mutatingwebhookconfigurations/{NAME}"),
}
"""Of what a component grants, something that a ClusterRole says: its binding is applied last."""


def gates_account(cluster: Cluster, folder: Path, *components: str) -> Path:
    """The gate's own ServiceAccount as it is shipped, with the rights of these components alone: a kubeconfig.

    Raises:
        ClusterError: the API server takes something not, or does not know its rights in time.
    """
    gates_namespace(cluster)
    granting = [_KUSTOMIZE / "components" / each / "rbac.yaml" for each in components]
    files = [_KUSTOMIZE / "base" / "serviceaccount.yaml", *granting]
    others = [_KUSTOMIZE / "components" / each / "rbac.yaml" for each in _LAST if each not in components]
    said(cluster, "delete", "--ignore-not-found", *(f"--filename={file}" for file in others))
    said(cluster, "apply", *(f"--filename={file}" for file in files))
    kubeconfig = as_service_account(cluster, NAMESPACE, NAME, folder / "kubeconfig")
    until("the API server knows its rights", partial(_may, cluster, kubeconfig, _LAST[components[-1]]), _WITHIN)
    return kubeconfig


def _may(cluster: Cluster, kubeconfig: Path, what: tuple[str, str]) -> bool:
    asked = cluster.kubectl("auth", "can-i", *what, "--all-namespaces", f"--kubeconfig={kubeconfig}")
    return asked.stdout.strip() == "yes"


def as_service_account(cluster: Cluster, namespace: str, name: str, path: Path) -> Path:
    """Write it, with a token that is good for an hour; the path.

    Raises:
        ClusterError: there is no such ServiceAccount.
    """
    config = json.loads(said(cluster, "config", "view", "--raw", "--minify", "--flatten", "--output=json"))
    token = said(cluster, "create", "token", name, f"--namespace={namespace}").strip()
    config["users"] = [{"name": config["contexts"][0]["context"]["user"], "user": {"token": token}}]
    path.touch(mode=0o600)
    path.write_text(json.dumps(config))
    return path
