"""CapLedgers in a cluster: what they are, told to it; and those that a case has left, taken away."""

from pathlib import Path

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


def forget_ledgers(cluster: Cluster, namespace: str) -> None:
    """Take the finalizer off every ledger of a gate's namespace, and delete it: the next gate would see it.

    Raises:
        ClusterError: one cannot be changed; the text is kubectl's.
    """
    there = f"--namespace={namespace}"
    for name in said(cluster, "get", "capledgers", there, "--output=name").split():
        said(cluster, "patch", name, there, "--type=merge", '--patch={"metadata":{"finalizers":null}}')
        said(cluster, "delete", name, there, "--ignore-not-found")
