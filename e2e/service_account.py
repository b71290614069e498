"""A kubeconfig of a ServiceAccount: its client has the rights of the account, and nothing more."""

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import yaml

from e2e.api import Api, api
from e2e.command_output import run_kubectl
from e2e.namespaces import gates_namespace
from e2e.ports import Cluster
from e2e.waiting import until
from tallygate.admission.webhook_configuration import CONFIGURATION_NAME, DEFAULT_NAMESPACE

_KUSTOMIZE = Path(__file__).parents[1] / "deploy" / "kustomize"
_WITHIN = 240.0  # seconds
_LAST = {
    "cluster-access": {"verb": "watch", "group": "", "resource": "pods"},
    "audit": {"verb": "list", "group": "batch", "resource": "cronjobs"},
    "publish-nodes": {"verb": "patch", "group": "", "resource": "nodes", "subresource": "status"},
    "backstop": {"verb": "create", "group": "", "resource": "resourcequotas"},
    "publish-usage": {"verb": "create", "group": "tallygate.dev", "resource": "capusages"},
    "self-signed": {
        "verb": "patch",
        "group": "admissionregistration.k8s.io",
        "resource": "mutatingwebhookconfigurations",
        "name": CONFIGURATION_NAME,
    },
}
"""One right of a ClusterRole of each component: its binding is applied last."""


def gates_account(cluster: Cluster, folder: Path, *components: str) -> Path:
    """Create the gate's ServiceAccount as shipped, with the rights of these components; return a kubeconfig.

    Raises:
        ClusterError: if the API server rejects something, or does not know its rights in time.
    """
    gates_namespace(cluster)
    granting = [_KUSTOMIZE / "components" / each / "rbac.yaml" for each in components]
    files = [_KUSTOMIZE / "base" / "serviceaccount.yaml", *granting]
    others = [_KUSTOMIZE / "components" / each / "rbac.yaml" for each in _LAST if each not in components]
    run_kubectl(cluster, "delete", "--ignore-not-found", *(f"--filename={file}" for file in others))
    run_kubectl(cluster, "apply", *(f"--filename={file}" for file in files))
    kubeconfig = as_service_account(cluster, DEFAULT_NAMESPACE, CONFIGURATION_NAME, folder / "kubeconfig")
    with Api(kubeconfig) as account:
        until("the API server knows its rights", partial(_may, account, _LAST[components[-1]]), _WITHIN)
    return kubeconfig


def _may(who: Api, what: Mapping[str, str]) -> bool:
    """Return whether a user may do this in all namespaces, as `kubectl auth can-i` asks."""
    review = {"spec": {"resourceAttributes": what}}
    allowed: bool = who.create("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)["status"]["allowed"]
    return allowed


def as_service_account(cluster: Cluster, namespace: str, name: str, path: Path, seconds: int = 3600) -> Path:
    """Write a kubeconfig with a token that is valid for a number of seconds, and return its path.

    Raises:
        ClusterError: if there is no such ServiceAccount.
    """
    account = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}"
    made = api(cluster.kubeconfig).create(f"{account}/token", {"spec": {"expirationSeconds": seconds}})
    config = yaml.safe_load(cluster.kubeconfig.read_text())  # whole in itself, and of one context
    config["users"] = [{"name": config["contexts"][0]["context"]["user"], "user": {"token": made["status"]["token"]}}]
    path.touch(mode=0o600)
    path.write_text(json.dumps(config))
    return path
