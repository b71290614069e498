"""What is still there of the gate: every object of every kind that its name or its label is on."""

import json
import re

from e2e.errors import ClusterError
from e2e.ports import Cluster

_PASSING = frozenset({"events", "events.events.k8s.io"})
"""What tells of the past, and ends by itself."""
_OURS = re.compile(r"\btallygate\b")


def remains(cluster: Cluster) -> list[str]:
    """Everything that can be listed, by kind, namespace and name; empty when nothing is left.

    Raises:
        ClusterError: the API server does not list something; the text is kubectl's.
    """
    kinds = set(_said(cluster, "api-resources", "--verbs=list", "--output=name").split()) - _PASSING
    read = json.loads(_said(cluster, "get", ",".join(sorted(kinds)), "--all-namespaces", "--output=json"))
    return sorted(
        f"{each['kind']} {metadata.get('namespace', '')}/{metadata['name']}"
        for each in read["items"]
        if (metadata := each["metadata"])
        and (_OURS.search(metadata["name"]) or metadata.get("labels", {}).get("app.kubernetes.io/name") == "tallygate")
    )


def _said(cluster: Cluster, *args: str) -> str:
    done = cluster.kubectl(*args)
    if done.returncode:
        raise ClusterError(f"kubectl {args[0]}: {done.stderr.strip()}")
    return done.stdout
