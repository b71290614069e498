"""The objects of every case: namespaces with labels, priority classes, runtime classes."""

from collections.abc import Iterator

from e2e.scheduling.api import Api, Object
from e2e.scheduling.draw.names import NAMESPACES, PRIORITIES


def create_base_objects(api: Api) -> None:
    """Create the objects, once for a control plane.

    Raises:
        RejectedError: if the API server rejects an object.
    """
    (default,) = (each for each in api.list_objects("Namespace") if each["metadata"]["name"] == "default")
    default["metadata"]["labels"] |= NAMESPACES["default"]
    api.put(default)
    for each in (*_namespaces(), *_priorities(), *_runtimes()):
        api.make(each)


def _namespaces() -> Iterator[Object]:
    for name, labels in NAMESPACES.items():
        if name != "default":
            yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def _priorities() -> Iterator[Object]:
    for name, value in PRIORITIES.items():
        polite = {"preemptionPolicy": "Never"} if name == "polite" else {}
        kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
        yield kind | {"value": value} | polite


def _runtimes() -> Iterator[Object]:
    """Yield a runtime class with overhead, and one with nodes of its own."""
    kind = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "handler": "runc"}
    yield kind | {"metadata": {"name": "heavy"}, "overhead": {"podFixed": {"cpu": "250m", "memory": "120Mi"}}}
    own = {"nodeSelector": {"gpu": "a100"}, "tolerations": [{"key": "gpu", "operator": "Exists"}]}
    yield kind | {"metadata": {"name": "apart"}, "scheduling": own}
