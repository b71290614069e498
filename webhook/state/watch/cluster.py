"""One cluster, followed: pods, namespaces and nodes, and the views of them.

Apart from `runner`, since it brings the columns of a cluster, and numpy with them.
"""

from threading import Thread

from webhook.state.watch.events import WatchEvent
from webhook.state.watch.namespaces import NAMESPACE_CODEC, NamespaceStore
from webhook.state.watch.nodes import NODE_CODEC, NodeStore
from webhook.state.watch.placing import SchedulerCache
from webhook.state.watch.pods import PodRecord
from webhook.state.watch.pool import ApiEndpoint
from webhook.state.watch.reflector import WatchTimeouts
from webhook.state.watch.runner import Informer, InformerStatus
from webhook.state.watch.view import PodStore


class ClusterInformers:
    """Pods, namespaces and nodes of one cluster, each followed by a thread of its own. It can be started once.

    `placing` is the same cluster as a scheduler knows it.
    """

    def __init__(self, endpoint: ApiEndpoint, timeouts: WatchTimeouts | None = None) -> None:
        self.pods = PodStore()
        self.namespaces = NamespaceStore()
        self.nodes = NodeStore()
        self.scheduler_cache = SchedulerCache(self.nodes, self.namespaces)
        self._informers = (
            Informer(NAMESPACE_CODEC, endpoint, self.namespaces.apply, self.namespaces.__len__, timeouts),
            Informer(
                self.scheduler_cache.create_pod_codec(self.pods),
                endpoint,
                self._apply_pod_event,
                self.pods.__len__,
                timeouts,
            ),
            Informer(NODE_CODEC, endpoint, self.nodes.apply, self.nodes.__len__, timeouts),
        )

    def _apply_pod_event(self, event: WatchEvent[PodRecord]) -> None:
        self.pods.apply(event)
        self.scheduler_cache.apply(event)

    def start(self) -> None:
        """Begin to follow."""
        for informer in self._informers:
            informer.start()

    def stop(self) -> None:
        """End within a second or so; the views stay as they are."""
        threads = [Thread(target=informer.stop, daemon=True) for informer in self._informers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def request_progress(self) -> None:
        """Find out soon how the cluster is now: within seconds, where an idle one would say so within a minute."""
        for informer in self._informers:
            informer.request_progress()

    def list_statuses(self) -> tuple[InformerStatus, ...]:
        """How it goes with each."""
        return tuple(informer.get_status() for informer in self._informers)
