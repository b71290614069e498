"""Thinking pods away, or onto nodes, for a moment, to ask what would be if."""

from collections.abc import Iterator
from contextlib import contextmanager

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.cluster.pods import Placed


class Supposition:
    """What is thought to be different. Each pod is thought away, or there, as often as one likes."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._real: dict[str, Placed] = {}
        self._order: dict[int, list[str]] = {}

    def away(self, pod: Placed) -> None:
        """Think a pod away that is on a node."""
        self._remember(pod)
        self._cluster.remove_pod(pod.uid)
        self._suppose(pod, -1)

    def back(self, pod: Placed) -> None:
        """Think a pod back that was thought away."""
        self._cluster.put_pod(pod)
        self._suppose(pod, 0)

    def there(self, pod: Placed) -> None:
        """Think a pod onto the node that it is promised."""
        self._remember(pod)
        moved = pod._replace(node=pod.nominated, nominated="")
        self._cluster.put_pod(moved)
        self._suppose(moved, 1)

    def forget(self) -> None:
        """Let all be as it is, the order of pods on their nodes too."""
        for uid, pod in self._real.items():
            self._cluster.put_pod(pod)
            self._cluster.supposed.pop(uid, None)
        for place, uids in self._order.items():
            if uids:
                self._cluster.arrange(place, uids)

    def _suppose(self, pod: Placed, more: int) -> None:
        """Say so, as the latest of all."""
        self._cluster.supposed.pop(pod.uid, None)
        self._cluster.supposed[pod.uid] = (pod, more)

    def _remember(self, pod: Placed) -> None:
        place = self._cluster.nodes.reserve(pod.node or pod.nominated)
        self._order.setdefault(place, list(self._cluster.on(place)))
        self._real.setdefault(pod.uid, pod)


@contextmanager
def supposing(cluster: Cluster) -> Iterator[Supposition]:
    """A supposition, forgotten at the end, come what may."""
    supposition = Supposition(cluster)
    try:
        yield supposition
    finally:
        supposition.forget()
