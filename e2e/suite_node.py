"""The site's node as every case may expect it: with four dongles, and without pods of other cases."""

from e2e.api import api
from e2e.namespaces import CASES
from e2e.node_resources import DONGLES, advertise
from e2e.ports import Site
from e2e.waiting import until

_WITHIN = 240.0  # seconds; a real kubelet lets containers end in peace


def restore_node(site: Site, namespace: str) -> None:
    """Restore the node: four dongles, nothing else that a case may have added, and no pods of other cases.

    Raises:
        ClusterError: if the node cannot be read or changed, or pods of other cases stay on it.
    """
    advertise(site.cluster, site.node, site.own | DONGLES)
    until(f"the pods of other cases leave {site.node}", lambda: _is_free(site, namespace), _WITHIN)


def _is_free(site: Site, namespace: str) -> bool:
    """Return whether it is so; delete pods that are there, since with their namespaces they take five seconds."""
    others = _others(site, namespace)
    for other in others:
        api(site.cluster.kubeconfig).delete(f"/api/v1/namespaces/{other}/pods", gracePeriodSeconds="1")
    return not others


def _others(site: Site, namespace: str) -> set[str]:
    """Return the namespaces of other cases that have pods on the node, or such as may yet come to it.

    They are deleted without being waited for, and a pod of theirs that waits for room is placed once there is some.
    """
    pods = api(site.cluster.kubeconfig).items("/api/v1/pods")
    names = {each["metadata"]["namespace"] for each in pods if each["spec"].get("nodeName", "") in {"", site.node}}
    return {name for name in names if name.startswith(CASES) and name != namespace}
