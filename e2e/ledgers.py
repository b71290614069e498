"""CapLedgers and Leases of gates in a cluster: definition, list, and the removal of those that a case has left."""

from pathlib import Path

from e2e.api import Object, api
from e2e.command_output import run_kubectl
from e2e.ports import Cluster
from e2e.waiting import until

_DEFINITION = Path(__file__).parents[1] / "deploy" / "kustomize" / "components" / "cluster-access" / "crd.yaml"
_DEFINED = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/capledgers.tallygate.dev"
_WITHIN = 240.0  # seconds


def define_ledgers(cluster: Cluster) -> None:
    """Apply the definition of CapLedger; return once the cluster has established it.

    Raises:
        ClusterError: if it refuses that.
    """
    run_kubectl(cluster, "apply", "--filename", str(_DEFINITION))
    until("the cluster knows what a CapLedger is", lambda: _is_established(cluster), _WITHIN)


def _is_established(cluster: Cluster) -> bool:
    status = api(cluster.kubeconfig).get(_DEFINED).get("status", {})
    # Of a definition that was made just now they are null.
    conditions = {each["type"]: each["status"] for each in status.get("conditions") or ()}
    return conditions.get("Established") == "True"


def get_ledgers_path(namespace: str) -> str:
    """Return the path of all ledgers of a namespace."""
    return f"/apis/tallygate.dev/v1alpha1/namespaces/{namespace}/capledgers"


def list_ledgers(cluster: Cluster, namespace: str) -> list[Object]:
    """Return the ledgers of a gate with this namespace.

    Raises:
        ClusterError: if they may not be read, or their definition is missing.
    """
    return api(cluster.kubeconfig).items(get_ledgers_path(namespace))


def delete_ledgers(cluster: Cluster, namespace: str) -> None:
    """Delete every ledger of a gate's namespace: the next gate would see it.

    Raises:
        ClusterError: if one cannot be deleted.
    """
    for each in list_ledgers(cluster, namespace):
        api(cluster.kubeconfig).delete(f"{get_ledgers_path(namespace)}/{each['metadata']['name']}")


def delete_leases(cluster: Cluster, namespace: str) -> None:
    """Delete the Leases of a gate's namespace: that of a killed gate stays, and says that nothing leads.

    Raises:
        ClusterError: if that is refused.
    """
    api(cluster.kubeconfig).delete(f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases")
