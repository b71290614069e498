"""CapLedgers and Leases of gates in a cluster: definition, list, and the removal of those that a case has left."""

from pathlib import Path

from e2e.api import Object, api
from e2e.definitions import apply_definitions
from e2e.ports import Cluster
from tallygate.gate.cap_activation import RECORD_LEASE

_DEFINITION = Path(__file__).parents[1] / "deploy" / "kustomize" / "components" / "cluster-access" / "crd.yaml"
_WITHIN = 240.0  # seconds


def define_ledgers(cluster: Cluster) -> None:
    """Apply the definition of CapLedger; return once the cluster has established it.

    Raises:
        ClusterError: if it refuses that.
    """
    apply_definitions(cluster, [_DEFINITION])


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
    """Delete all Leases of a gate's namespace, for a gate that begins from nothing.

    Raises:
        ClusterError: if that is refused.
    """
    api(cluster.kubeconfig).delete(f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases")


def expire_leases(cluster: Cluster, namespace: str) -> None:
    """Delete the Leases of the leader and the replicas, as if those of killed gates had expired; the record stays.

    Raises:
        ClusterError: if that is refused.
    """
    others = f"metadata.name!={RECORD_LEASE}"
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    api(cluster.kubeconfig).delete(path, fieldSelector=others)
