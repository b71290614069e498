"""The site's node as every case may expect it: with four dongles, and without pods of other cases."""

from e2e.advertised import DONGLES, advertise
from e2e.api import api
from e2e.namespaces import CASES
from e2e.ports import Site
from e2e.waiting import until

_WITHIN = 240.0  # seconds; a real kubelet lets containers end in peace


def restore_node(site: Site, namespace: str) -> None:
    """Let the node advertise four dongles, nothing else that a case may have given it, and hold no other case's pods.

    Raises:
        ClusterError: the node cannot be read or changed, or pods of other cases stay on it.
    """
    advertise(site.cluster, site.node, site.own | DONGLES)
    until(f"the pods of other cases leave {site.node}", lambda: _is_left(site, namespace), _WITHIN)


def _is_left(site: Site, namespace: str) -> bool:
    """Whether it is so; pods that are there are told to go, since with their namespaces they take five seconds."""
    others = _others(site, namespace)
    for other in others:
        api(site.cluster.kubeconfig).delete(f"/api/v1/namespaces/{other}/pods", gracePeriodSeconds="1")
    return not others


def _others(site: Site, namespace: str) -> set[str]:
    """The namespaces of other cases that have pods on the node, or such as may yet come to it.

    They are deleted without being waited for, and a pod of theirs that waits for room is placed once there is some.
    """
    pods = api(site.cluster.kubeconfig).items("/api/v1/pods")
    names = {each["metadata"]["namespace"] for each in pods if each["spec"].get("nodeName", "") in {"", site.node}}
    return {name for name in names if name.startswith(CASES) and name != namespace}
