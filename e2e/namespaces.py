"""Namespaces that take pods: a case's own, and the gate's."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from e2e.ports import Cluster
from e2e.said import said
from webhook.admission.registration import NAMESPACE

CASES = "case-"
"""Begins the names of cases' namespaces."""

_GATES = Path(__file__).parents[1] / "deploy" / "kustomize" / "base" / "namespace.yaml"


@contextmanager
def new_namespace(cluster: Cluster, begins: str = CASES) -> Iterator[str]:
    """A namespace that takes pods, for as long as the block runs; it ends some seconds later, and its pods with it.

    Its name is one that there never was, and `begins` so.

    Raises:
        ClusterError: it cannot be made, or takes no pods in time.
    """
    name = f"{begins}{uuid4().hex[:8]}"
    said(cluster, "create", "namespace", name)
    until_it_takes_pods(cluster, name)
    yield name
    said(cluster, "delete", "namespace", name, "--wait=false", "--ignore-not-found")


def gates_namespace(cluster: Cluster) -> str:
    """The gate's own namespace as it is shipped, which takes pods. It stays: one that ends would not take them again.

    Raises:
        ClusterError: it cannot be made, or takes no pods in time.
    """
    said(cluster, "apply", "--filename", str(_GATES))
    until_it_takes_pods(cluster, NAMESPACE)
    return NAMESPACE


def until_it_takes_pods(cluster: Cluster, namespace: str) -> None:
    """Wait until a controller has made a namespace's ServiceAccount: pods are refused before that.

    Raises:
        ClusterError: there is none in time.
    """
    said(cluster, "wait", "--for=create", "--timeout=240s", f"--namespace={namespace}", "serviceaccount/default")
