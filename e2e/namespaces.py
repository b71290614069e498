"""Namespaces that take pods: a case's own, and the gate's."""

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from uuid import uuid4

from kubernetes.client import V1Namespace, V1ObjectMeta
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from e2e.client import RAW, core
from e2e.errors import ClusterError
from e2e.ports import Cluster
from e2e.said import said
from e2e.waiting import until
from webhook.admission.registration import NAMESPACE

CASES = "case-"
"""Begins the names of cases' namespaces."""

_WITHIN = 240.0  # seconds
_GATES = Path(__file__).parents[1] / "deploy" / "kustomize" / "base" / "namespace.yaml"


@contextmanager
def new_namespace(cluster: Cluster, begins: str = CASES) -> Iterator[str]:
    """A namespace that takes pods, for as long as the block runs; it ends some seconds later, and its pods with it.

    Its name is one that there never was, and `begins` so.

    Raises:
        ClusterError: it cannot be made, or takes no pods in time.
    """
    name = f"{begins}{uuid4().hex[:8]}"
    api = core(cluster.kubeconfig)
    try:
        api.create_namespace(V1Namespace(metadata=V1ObjectMeta(name=name)), **RAW)
        until_it_takes_pods(cluster, name)
    except (ApiException, HTTPError) as error:
        raise ClusterError(f"the namespace {name}: {error}") from error
    yield name
    try:
        api.delete_namespace(name, **RAW)
    except ApiException as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise


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

    def is_there() -> bool:
        try:
            core(cluster.kubeconfig).read_namespaced_service_account("default", namespace, **RAW)
        except ApiException as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            return False
        return True

    until(f"the namespace {namespace} has its ServiceAccount", is_there, _WITHIN)
