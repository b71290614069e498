"""The pods of nodes and the amounts that they use, as kube-scheduler counts them."""

import time
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

import msgspec

from tallygate.accounting.charge import has_ended
from tallygate.accounting.pod_requests import compute_pod_requests
from tallygate.kube.client import ApiClient
from tallygate.kube.pagination import PAGE_SIZE, list_raw_pages
from tallygate.objects.core import Pod

_PATH = "/api/v1/pods"
_NOT_ENDED = "status.phase!=Succeeded,status.phase!=Failed"
_MAX_SINGLE_NODES = 4
"""The most nodes whose pods are listed for each node; for more nodes one list of all pods is shorter."""
_DECODER = msgspec.json.Decoder(Pod)


class PodAmount(NamedTuple):
    """The amount of one resource that a pod on a node uses."""

    namespace: str
    name: str
    amount: int

    def __str__(self) -> str:
        """Return `team-a/trainer (2)`."""
        return f"{self.namespace}/{self.name} ({self.amount})"


class NodeUsage:
    """The pods of some nodes that use some resources, the largest amount first."""

    def __init__(self) -> None:
        self._amounts: dict[tuple[str, str], list[PodAmount]] = {}

    def add_page(self, page: Iterable[msgspec.Raw], names: Collection[str]) -> None:
        """Count the pods of a page of a list.

        Raises:
            QuantityError: if a quantity of a pod is invalid.
        """
        for item in page:
            self.add(_DECODER.decode(item), names)

    def add(self, pod: Pod, names: Collection[str]) -> None:
        """Count a pod on the node that it is bound to.

        Raises:
            QuantityError: if a quantity of the pod is invalid.
        """
        spec, metadata = pod.spec, pod.metadata
        if spec is None or metadata is None or not spec.node_name or has_ended(pod):
            return
        amounts = compute_pod_requests(spec, pod.status).amounts
        for resource in names:
            if amount := amounts.get(resource, 0):
                found = PodAmount(metadata.namespace or "", metadata.name or "", amount)
                self._amounts.setdefault((spec.node_name, resource), []).append(found)

    def list_pods(self, node: str, resource: str) -> list[PodAmount]:
        found = self._amounts.get((node, resource), [])
        return sorted(found, key=lambda each: (-each.amount, each.namespace, each.name))

    def get_used(self, node: str, resource: str) -> int:
        return sum(amount.amount for amount in self._amounts.get((node, resource), ()))


def list_pod_pages(client: ApiClient, nodes: Collection[str]) -> Iterator[list[msgspec.Raw]]:
    """Yield the pods of nodes that have not ended, page by page.

    Raises:
        ApiError: if the pods cannot be listed.
    """
    selectors = [f"spec.nodeName={node},{_NOT_ENDED}" for node in nodes]
    for selector in selectors if len(nodes) <= _MAX_SINGLE_NODES else [_NOT_ENDED]:
        yield from list_raw_pages(client.get, _PATH, PAGE_SIZE, time.sleep, {"fieldSelector": selector})
