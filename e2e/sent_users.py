"""Users in whose names the administrator sends requests, so that a policy reads their names and groups."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from e2e.api import api
from e2e.ports import Cluster

_AUTHENTICATED = "system:authenticated"
_BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
_NAME = "sent-users"


@contextmanager
def grant_everything(cluster: Cluster) -> Iterator[None]:
    """Let every user do everything until the end of the block.

    Raises:
        ClusterError: if the API server refuses it.
    """
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": _AUTHENTICATED}
    binding = {"metadata": {"name": _NAME}, "roleRef": role, "subjects": [subject]}
    api(cluster.kubeconfig).create(_BINDINGS, binding)
    try:
        yield
    finally:
        api(cluster.kubeconfig).delete(f"{_BINDINGS}/{_NAME}")


def create_headers(name: str, groups: Iterable[str]) -> Mapping[str, str]:
    """Return the headers of a request of this user, whose groups of the system the API server adds by itself.

    Raises:
        ValueError: if the user has several other groups, which one header cannot name.
    """
    others = [group for group in groups if not group.startswith("system:")]
    if len(others) > 1:
        raise ValueError(others)
    return {"Impersonate-User": name, **({"Impersonate-Group": others[0]} if others else {})}
