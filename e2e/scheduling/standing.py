"""What stands in every case: namespaces with labels, priority classes, runtime classes."""

from collections.abc import Iterator

from e2e.scheduling.api import Api, Object
from e2e.scheduling.draw.words import NAMESPACES, PRIORITIES


def make_standing(api: Api) -> None:
    """Make it, once for a control plane.

    Raises:
        RefusedError: the API server does not take it.
    """
    (there,) = (each for each in api.listed("Namespace") if each["metadata"]["name"] == "default")
    there["metadata"]["labels"] |= NAMESPACES["default"]
    api.put(there)
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
    """One that costs something on top, and one that has nodes of its own."""
    kind = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "handler": "runc"}
    yield kind | {"metadata": {"name": "heavy"}, "overhead": {"podFixed": {"cpu": "250m", "memory": "120Mi"}}}
    own = {"nodeSelector": {"gpu": "a100"}, "tolerations": [{"key": "gpu", "operator": "Exists"}]}
    yield kind | {"metadata": {"name": "apart"}, "scheduling": own}
