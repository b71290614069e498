"""CapLedgers in a cluster: what they are, told to it; who is there; and who was left by a case, taken away."""

from pathlib import Path

from e2e.api import Object, api
from e2e.ports import Cluster
from e2e.said import said

_DEFINITION = Path(__file__).parents[1] / "deploy" / "kustomize" / "components" / "followed" / "crd.yaml"


def define_ledgers(cluster: Cluster) -> None:
    """Let the cluster know what a CapLedger is; return once it does.

    Raises:
        ClusterError: it refuses that.
    """
    said(cluster, "apply", "--filename", str(_DEFINITION))
    said(cluster, "wait", "--for=condition=Established", "--timeout=240s", "crd/capledgers.tallygate.dev")


def ledgers_in(namespace: str) -> str:
    """The path of all that are there."""
    return f"/apis/tallygate.dev/v1alpha1/namespaces/{namespace}/capledgers"


def ledgers_of(cluster: Cluster, namespace: str) -> list[Object]:
    """The ledgers of a gate whose own namespace this is.

    Raises:
        ClusterError: they may not be read, or nobody has told the cluster what they are.
    """
    return api(cluster.kubeconfig).items(ledgers_in(namespace))


def forget_ledgers(cluster: Cluster, namespace: str) -> None:
    """Take the finalizer off every ledger of a gate's namespace, and delete it: the next gate would see it.

    Raises:
        ClusterError: one cannot be changed.
    """
    for each in ledgers_of(cluster, namespace):
        path = f"{ledgers_in(namespace)}/{each['metadata']['name']}"
        api(cluster.kubeconfig).patch(path, {"metadata": {"finalizers": None}})
        api(cluster.kubeconfig).delete(path)
