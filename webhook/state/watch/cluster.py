"""One cluster, followed: pods, namespaces and nodes, and the views of them.

Apart from `runner`, since it brings the columns of a cluster, and numpy with them.
"""

from threading import Thread

from webhook.state.watch.events import Event
from webhook.state.watch.namespaces import NAMESPACES, NamespaceView
from webhook.state.watch.nodes import NODES, NodeView
from webhook.state.watch.placing import ClusterView
from webhook.state.watch.pods import PodRow
from webhook.state.watch.pool import Access
from webhook.state.watch.reflector import Pace
from webhook.state.watch.runner import Followed, Follower
from webhook.state.watch.view import PodView


class ClusterWatch:
    """Pods, namespaces and nodes of one cluster, each followed by a thread of its own. It can be started once.

    `placing` is the same cluster as a scheduler knows it.
    """

    def __init__(self, access: Access, pace: Pace | None = None) -> None:
        self.pods = PodView()
        self.namespaces = NamespaceView()
        self.nodes = NodeView()
        self.placing = ClusterView(self.nodes, self.namespaces)
        self._followers = (
            Follower(NAMESPACES, access, self.namespaces.apply, self.namespaces.__len__, pace),
            Follower(self.placing.reading(self.pods), access, self._take_pods, self.pods.__len__, pace),
            Follower(NODES, access, self.nodes.apply, self.nodes.__len__, pace),
        )

    def _take_pods(self, event: Event[PodRow]) -> None:
        self.pods.apply(event)
        self.placing.apply(event)

    def start(self) -> None:
        """Begin to follow."""
        for follower in self._followers:
            follower.start()

    def stop(self) -> None:
        """End within a second or so; the views stay as they are."""
        threads = [Thread(target=follower.stop, daemon=True) for follower in self._followers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def hurry(self) -> None:
        """Find out soon how the cluster is now: within seconds, where an idle one would say so within a minute."""
        for follower in self._followers:
            follower.hurry()

    def followed(self) -> tuple[Followed, ...]:
        """How it goes with each."""
        return tuple(follower.followed() for follower in self._followers)
