"""A kubeconfig that is a ServiceAccount: what asks with it has that one's rights, and nothing more."""

import json
from pathlib import Path

from e2e.ports import Cluster
from e2e.said import said


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
