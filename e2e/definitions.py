"""Definitions of kinds, from files: applied, and served once the API server says so."""

from collections.abc import Iterable
from pathlib import Path

from e2e.api import Object, api
from e2e.command_output import run_kubectl
from e2e.ports import Cluster
from e2e.waiting import until

_WITHIN = 240.0  # seconds
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def apply_definitions(cluster: Cluster, files: Iterable[Path], *options: str) -> None:
    """Apply what is in these files, with further options of kubectl; return once the definitions are established.

    `kubectl wait` ends at once for a definition that was made just now: its conditions are null.

    Raises:
        ClusterError: if the API server refuses one, or does not establish it in time.
    """
    arguments = [f"--filename={file}" for file in files]
    names = run_kubectl(cluster, "apply", "--output=name", *options, *arguments).split()
    for name in [each.partition("/")[2] for each in names if each.startswith("customresourcedefinition")]:
        path = f"{_DEFINITIONS}/{name}"
        until(f"{name} is established", lambda path=path: _is_established(cluster, path), _WITHIN)  # type: ignore[misc]


def _is_established(cluster: Cluster, path: str) -> bool:
    status: Object = api(cluster.kubeconfig).get(path).get("status", {})
    conditions = {each["type"]: each["status"] for each in status.get("conditions") or ()}
    return conditions.get("Established") == "True"
