"""CapLedgers in a cluster: what they are, told to it; who is there; and who was left by a case, taken away."""

from pathlib import Path

from e2e.api import Object, api
from e2e.ports import Cluster
from e2e.said import said
from e2e.waiting import until

_DEFINITION = Path(__file__).parents[1] / "deploy" / "kustomize" / "components" / "cluster-access" / "crd.yaml"
_DEFINED = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/capledgers.tallygate.dev"
_WITHIN = 240.0  # seconds


def define_ledgers(cluster: Cluster) -> None:
    """Let the cluster know what a CapLedger is; return once it does.

    Raises:
        ClusterError: it refuses that.
    """
    said(cluster, "apply", "--filename", str(_DEFINITION))
    until("the cluster knows what a CapLedger is", lambda: _is_established(cluster), _WITHIN)


def _is_established(cluster: Cluster) -> bool:
    status = api(cluster.kubeconfig).get(_DEFINED).get("status", {})
    # Of a definition that was made just now they are null.
    conditions = {each["type"]: each["status"] for each in status.get("conditions") or ()}
    return conditions.get("Established") == "True"


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
