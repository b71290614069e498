"""The cluster that a server follows, put together from its settings."""

import time

from webhook.gate.usage_lister import UsageLister
from webhook.server.following.placing import FollowedPlacing
from webhook.server.following.quotas import FollowedQuotas
from webhook.server.ports import Check
from webhook.server.reporting.logs import Logger
from webhook.server.settings.table import Settings
from webhook.state.watch.asking import QuorumReader
from webhook.state.watch.cluster import ClusterWatch
from webhook.state.watch.connect import Connection, connect, connect_in_cluster
from webhook.state.watch.devices import DEVICES
from webhook.state.watch.pool import PooledTransport
from webhook.state.watch.runner import Followed, Follower

_CAPS_GO_BY = ("namespaces", "pods")


def connection(settings: Settings) -> Connection:
    """The API server that the settings name.

    Raises:
        ConnectError: nothing says where it is.
    """
    if settings.cluster == "in-cluster":
        return connect_in_cluster()
    return connect(settings.kubeconfig, settings.context or None)


class Cluster:
    """Eyes on one cluster. `sight` is what the gate sees, `reader` reads single pods."""

    def __init__(self, access: Connection, log: Logger) -> None:
        self._watch = ClusterWatch(access)
        self.quotas = FollowedQuotas(access, log)
        devices = self._watch.placing.devices
        self._devices = Follower(DEVICES, access, devices.apply, devices.__len__)
        self.placing = FollowedPlacing(
            self._watch.placing, lambda: (*self._watch.followed(), self._devices.followed()), log
        )
        self._transport = PooledTransport(access)
        self.namespaces = self._watch.namespaces
        self.pods = self._watch.pods
        self.reader = QuorumReader(self._transport)
        self.sight = UsageLister(self.pods, self.namespaces, time.monotonic, self._current_at, self._watch.hurry)

    def start(self) -> None:
        """Begin to follow."""
        self._watch.start()
        self.quotas.start()
        self._devices.start()

    def stop(self) -> None:
        """End within a second or so."""
        self._transport.close()
        self._watch.stop()
        self.quotas.stop()
        self._devices.stop()

    def followed(self) -> tuple[Followed, ...]:
        """How it goes with each resource."""
        return (*self._watch.followed(), self.quotas.followed(), self._devices.followed())

    def check(self) -> Check:
        """Ready once pods and namespaces were listed; what has become old is told, and still better than no gate."""
        followed = self.followed()
        ready = all(each.revision is not None for each in followed if each.name in _CAPS_GO_BY)
        return Check("cluster", ready, {each.name: _shown(each) for each in followed})

    def _current_at(self) -> float | None:
        """Since when pods and namespaces are both known to be as they are seen.

        Ages go on while the machine sleeps, this clock may not: then the time is earlier than it was, which is safe.
        """
        ages = [each.age for each in self.followed() if each.name in _CAPS_GO_BY]
        known = [age for age in ages if age is not None]
        return time.monotonic() - max(known) if len(known) == len(ages) else None


def _shown(followed: Followed) -> dict[str, object]:
    detail: dict[str, object] = {"objects": followed.objects, "revision": followed.revision}
    if followed.age is not None:
        detail["ageSeconds"] = round(followed.age, 1)
    troubles = {"stale": followed.stale, "crash": followed.crash}
    return detail | {name: text for name, text in troubles.items() if text}
