"""Nodes and pods beside the gate, for rules that ask whether there is a node for a pod."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final

from webhook.gate import schedulability  # noqa: F401  here, before an API server waits for the first answer
from webhook.gate.scheduling_snapshot import ClusterSnapshot
from webhook.server.following.unplaced import Said, placing_said
from webhook.server.reporting.logs import Logger
from webhook.state.watch.devices import DEVICES
from webhook.state.watch.placing import ClusterView
from webhook.state.watch.runner import Followed

_PATIENCE_SECONDS: Final = 0.2  # behind others that look at it; nobody's pod waits for longer


class FollowedPlacing:
    """The cluster that is followed. While it is not known nothing is said of pods by it, and the log says so."""

    def __init__(self, view: ClusterView, followed: Callable[[], Sequence[Followed]], log: Logger) -> None:
        self._view = view
        self._followed = followed
        self._said = {pods: placing_said(log) for pods in (False, True)}
        self._devices_said = Said(
            partial(log.warning, "device-classes-not-judged"),
            partial(log.info, "device-classes-judged"),
            "names that no node has are",
        )

    def is_available(self) -> bool:
        """As a rule; `seen` finds out."""
        return True

    @contextmanager
    def open_snapshot(self, *, pods: bool) -> Iterator[ClusterSnapshot | None]:
        """The cluster; None while it is old, was never listed, or is looked at by others for too long."""
        followed = self._followed()
        stale, age = _known(followed, pods=pods)
        self._said[pods].unknown(stale)
        if stale:
            yield None
            return
        has_devices = self._has_devices(followed)
        with self._view.held(_PATIENCE_SECONDS) as cluster:
            yield ClusterSnapshot(cluster, age, self._view.has_pods, has_devices) if cluster is not None else None

    def _has_devices(self, followed: Sequence[Followed]) -> bool:
        """Whether device classes are known; that there are none is known too."""
        stale = next((each.stale or "" for each in followed if each.name == DEVICES.name), "nobody tells of them")
        self._devices_said.unknown(stale)
        return not stale


def _known(all_followed: Sequence[Followed], *, pods: bool) -> tuple[str, float]:
    """Why nodes, and pods where they matter, are not known, if so; and of how many seconds ago they are."""
    needed = {"nodes", "pods"} if pods else {"nodes"}
    followed = [each for each in all_followed if each.name in needed]
    age = max((each.age for each in followed if each.age is not None), default=0.0)
    return "; ".join(each.stale for each in followed if each.stale), age
