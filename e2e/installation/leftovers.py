"""Objects that are left of the gate: every object of every kind with its name or its label."""

import json
import re

from e2e.command_output import run_kubectl
from e2e.ports import Cluster

_PASSING = frozenset({"events", "events.events.k8s.io"})
"""Kinds of objects that report the past, and expire by themselves."""
_OURS = re.compile(r"\btallygate\b")


def find_leftovers(cluster: Cluster) -> list[str]:
    """Return everything that can be listed, by kind, namespace and name; empty if nothing is left.

    Raises:
        ClusterError: if the API server does not list something; the text is kubectl's.
    """
    kinds = set(run_kubectl(cluster, "api-resources", "--verbs=list", "--output=name").split()) - _PASSING
    read = json.loads(run_kubectl(cluster, "get", ",".join(sorted(kinds)), "--all-namespaces", "--output=json"))
    return sorted(
        f"{each['kind']} {metadata.get('namespace', '')}/{metadata['name']}"
        for each in read["items"]
        if (metadata := each["metadata"])
        and (_OURS.search(metadata["name"]) or metadata.get("labels", {}).get("app.kubernetes.io/name") == "tallygate")
    )
