"""Namespaces that accept pods: a case's own, and the gate's."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from uuid import uuid4

from e2e.api import api
from e2e.command_output import run_kubectl
from e2e.ports import Cluster, NotHereError
from e2e.waiting import until
from tallygate.admission.webhook_configuration import DEFAULT_NAMESPACE

CASES = "case-"
"""The prefix of the names of cases' namespaces."""

_WITHIN = 240.0  # seconds
_GATES = Path(__file__).parents[1] / "deploy" / "kustomize" / "base" / "namespace.yaml"
_ALL = "/api/v1/namespaces"


@contextmanager
def new_namespace(cluster: Cluster, begins: str = CASES) -> Iterator[str]:
    """Yield a new namespace that accepts pods; after the block it is deleted some seconds later, and its pods with it.

    Its name was never used before, and begins with `begins`.

    Raises:
        ClusterError: if it cannot be made, or takes no pods in time.
    """
    name = f"{begins}{uuid4().hex[:8]}"
    api(cluster.kubeconfig).create(_ALL, {"metadata": {"name": name}})
    until_it_takes_pods(cluster, name)
    yield name
    api(cluster.kubeconfig).delete(f"{_ALL}/{name}")


@contextmanager
def create_named_namespaces(cluster: Cluster, names: Collection[str]) -> Iterator[None]:
    """Create namespaces with these names, which accept pods; after the block they are deleted, and are no more.

    Raises:
        NotHereError: if the cluster has one already.
        ClusterError: if one cannot be made, takes no pods in time, or is not deleted in time.
    """
    client = api(cluster.kubeconfig)
    if present := {each["metadata"]["name"] for each in client.items(_ALL)}.intersection(names):
        raise NotHereError(f"the cluster has a namespace {min(present)} already")
    for name in names:
        client.create(_ALL, {"metadata": {"name": name}})
    try:
        for name in names:
            until_it_takes_pods(cluster, name)
        yield
    finally:
        for name in names:
            client.delete(f"{_ALL}/{name}")
        for name in names:
            until(f"the namespace {name} is deleted", lambda: client.find(f"{_ALL}/{name}") is None, _WITHIN)  # noqa: B023  called at once


def label(cluster: Cluster, namespace: str, labels: Mapping[str, str | None]) -> None:
    """Set these labels of a namespace beside its others; a label of None is removed.

    Raises:
        ClusterError: if it cannot be changed.
    """
    api(cluster.kubeconfig).patch(f"{_ALL}/{namespace}", {"metadata": {"labels": labels}})


def gates_namespace(cluster: Cluster) -> str:
    """Create the gate's own namespace as it is shipped, which accepts pods, and return its name. It stays.

    Raises:
        ClusterError: if it cannot be made, or takes no pods in time.
    """
    run_kubectl(cluster, "apply", "--filename", str(_GATES))
    until_it_takes_pods(cluster, DEFAULT_NAMESPACE)
    return DEFAULT_NAMESPACE


def until_it_takes_pods(cluster: Cluster, namespace: str) -> None:
    """Wait until a controller has made a namespace's ServiceAccount: pods are refused before that.

    Raises:
        ClusterError: if it takes too long.
    """
    account = f"{_ALL}/{namespace}/serviceaccounts/default"
    found = partial(api(cluster.kubeconfig).find, account)
    until(f"the namespace {namespace} has its ServiceAccount", lambda: found() is not None, _WITHIN)
