"""The watch of a state: informers that fill its stores, and keep them current."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tallygate.cluster.cap_ledger_list import LEDGER_RECORD_CODEC, CapLedgerList, CapLedgerStore
from tallygate.cluster.cluster_state import ClusterState
from tallygate.cluster.kinds import CLAIMS, CLASSES, SLICES
from tallygate.kube.client import ClientConfig
from tallygate.kube.informer import Informer
from tallygate.kube.resource_codec import Replaced
from tallygate.state.informers.device_store import RESOURCE_SLICE_CODEC
from tallygate.state.informers.named_stores import DEVICE_CLASS_CODEC, NAMESPACE_CODEC, NODE_CODEC

_POLL_SECONDS = 1.0
"""The poll interval: changes within it are reported together."""


class StateWatch:
    """The watches of all that was read of a cluster: what could not be read then is not watched."""

    def __init__(self, client_config: ClientConfig, observed: ClusterState) -> None:
        self._unavailable_reason = observed.ledgers.unavailable_reason
        self._state, self._ledger_store = ClusterState(time.monotonic), CapLedgerStore()
        self._state.problems |= observed.problems
        namespaces, pods = self._state.namespaces, self._state.pods
        self._informers: list[Informer[Any, Any]] = [
            Informer(NAMESPACE_CODEC, client_config, namespaces.apply, namespaces.__len__),
            Informer(pods.codec, client_config, pods.apply, pods.__len__),
        ]
        classes, claims = self._state.device_classes, self._state.claims
        if CLASSES not in observed.problems:
            self._informers.append(Informer(DEVICE_CLASS_CODEC, client_config, classes.apply, classes.__len__))
        if CLAIMS in observed.problems:
            claims.apply(Replaced((), 0))
        else:
            self._informers.append(Informer(claims.codec, client_config, claims.apply, claims.__len__))
        nodes, devices = self._state.nodes, self._state.devices
        if observed.nodes.revision is not None:
            self._informers.append(Informer(NODE_CODEC, client_config, nodes.apply, nodes.__len__))
        if observed.devices.revision is not None and SLICES not in observed.problems:
            self._informers.append(Informer(RESOURCE_SLICE_CODEC, client_config, devices.apply, devices.__len__))
        if not self._unavailable_reason:
            self._informers.append(
                Informer(LEDGER_RECORD_CODEC, client_config, self._ledger_store.apply, self._ledger_store.__len__)
            )

    def start(self) -> None:
        for informer in self._informers:
            informer.start()

    def stop(self) -> None:
        """Stop the watches, within a second each."""
        for informer in self._informers:
            informer.stop()

    def iterate_changes(self) -> Iterator[tuple[ClusterState, tuple[str, ...]]]:
        """Yield the cluster after each possible change, with the messages of its stale stores; without end."""
        previous: object = None
        while True:
            statuses = [informer.get_status() for informer in self._informers]
            stale = tuple(
                status.stale for status in statuses if status.stale is not None and status.revision is not None
            )
            current = ([status.revision for status in statuses], stale)
            if current != previous and all(status.revision is not None for status in statuses):
                previous = current
                self._state.ledgers = self._list_ledgers()
                yield self._state, stale
            time.sleep(_POLL_SECONDS)

    def _list_ledgers(self) -> CapLedgerList:
        reason = self._unavailable_reason
        return (
            CapLedgerList(missing_reason=reason, unavailable_reason=reason)
            if reason
            else self._ledger_store.list_ledgers()
        )


@contextmanager
def watch_state(client_config: ClientConfig, observed: ClusterState) -> Iterator[StateWatch]:
    """Yield the watch of a cluster that was read, while the block runs."""
    watch = StateWatch(client_config, observed)
    watch.start()
    try:
        yield watch
    finally:
        watch.stop()
