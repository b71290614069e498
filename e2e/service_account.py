"""A kubeconfig that is a ServiceAccount: what asks with it has that one's rights, and nothing more."""

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import yaml

from e2e.api import Api, api
from e2e.namespaces import gates_namespace
from e2e.ports import Cluster
from e2e.said import said
from e2e.waiting import until
from webhook.admission.webhook_configuration import CONFIGURATION_NAME, DEFAULT_NAMESPACE

_KUSTOMIZE = Path(__file__).parents[1] / "deploy" / "kustomize"
_WITHIN = 240.0  # seconds
_LAST = {
    "cluster-access": {"verb": "watch", "group": "", "resource": "pods"},
    "audit": {"verb": "list", "group": "batch", "resource": "cronjobs"},
    "self-signed": {
        "verb": "patch",
        "group": "admissionregistration.k8s.io",
        "resource": "mutatingwebhookconfigurations",
        "name": CONFIGURATION_NAME,
    },
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
    kubeconfig = as_service_account(cluster, DEFAULT_NAMESPACE, CONFIGURATION_NAME, folder / "kubeconfig")
    with Api(kubeconfig) as account:
        until("the API server knows its rights", partial(_may, account, _LAST[components[-1]]), _WITHIN)
    return kubeconfig


def _may(who: Api, what: Mapping[str, str]) -> bool:
    """Whether somebody may do this in all namespaces, as `kubectl auth can-i` asks."""
    review = {"spec": {"resourceAttributes": what}}
    allowed: bool = who.create("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)["status"]["allowed"]
    return allowed


def as_service_account(cluster: Cluster, namespace: str, name: str, path: Path) -> Path:
    """Write it, with a token that is good for an hour; the path.

    Raises:
        ClusterError: there is no such ServiceAccount.
    """
    account = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}"
    made = api(cluster.kubeconfig).create(f"{account}/token", {"spec": {}})
    config = yaml.safe_load(cluster.kubeconfig.read_text())  # whole in itself, and of one context
    config["users"] = [{"name": config["contexts"][0]["context"]["user"], "user": {"token": made["status"]["token"]}}]
    path.touch(mode=0o600)
    path.write_text(json.dumps(config))
    return path
