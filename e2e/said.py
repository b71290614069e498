"""What kubectl says where it is not to fail."""

from e2e.errors import ClusterError
from e2e.ports import Cluster


def said(cluster: Cluster, *args: str, stdin: str | None = None) -> str:
    """Run kubectl; what it prints.

    Raises:
        ClusterError: it fails; the text is kubectl's.
    """
    done = cluster.kubectl(*args, stdin=stdin)
    if done.returncode:
        raise ClusterError(f"kubectl {args[0]}: {done.stderr.strip()}")
    return done.stdout
