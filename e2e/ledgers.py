"""CapLedgers that a case has left, taken away: they outlive the gate that wrote them, and are seen by the next."""

from e2e.errors import ClusterError
from e2e.ports import Cluster


def forget_ledgers(cluster: Cluster, namespace: str) -> None:
    """Take the finalizer off every ledger of a gate's namespace, and delete it.

    Raises:
        ClusterError: one cannot be changed; the text is kubectl's.
    """
    there = f"--namespace={namespace}"
    for name in _said(cluster, "get", "capledgers", there, "--output=name").split():
        _said(cluster, "patch", name, there, "--type=merge", '--patch={"metadata":{"finalizers":null}}')
        _said(cluster, "delete", name, there)


def _said(cluster: Cluster, *args: str) -> str:
    done = cluster.kubectl(*args)
    if done.returncode:
        raise ClusterError(f"kubectl {args[0]}: {done.stderr.strip()}")
    return done.stdout
