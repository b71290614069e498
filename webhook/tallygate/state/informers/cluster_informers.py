"""Informers of one cluster for pods, claims, devices, namespaces, nodes and pools, and reads of single objects.

This module is separate from `tallygate.kube.informer`, because it imports the columns of a cluster and with them numpy.

A quorum read of a pod or claim decides whether a reservation became a stored object; a quorum read of a workload
returns its JSON.
"""

import time
from threading import BoundedSemaphore, Thread
from typing import Final
from urllib.parse import quote

import msgspec

from tallygate.accounting.charge import ConsumerKind
from tallygate.kube.api_errors import ApiError, ApiErrorReason
from tallygate.kube.client import ClientConfig
from tallygate.kube.informer import Informer, InformerStatus
from tallygate.kube.reflector import WatchTimeouts
from tallygate.kube.resource_codec import WatchEvent, parse_revision
from tallygate.kube.transport import Transport
from tallygate.objects.meta import PartialObjectMetadata
from tallygate.state.informers.claim_store import ClaimStore
from tallygate.state.informers.device_store import RESOURCE_SLICE_CODEC, DeviceStore
from tallygate.state.informers.named_stores import (
    DEVICE_CLASS_CODEC,
    DEVICE_TAINT_RULE_CODEC,
    NAMESPACE_CODEC,
    NODE_CODEC,
    DeviceTaintRuleStore,
    NamespaceStore,
    NodeStore,
)
from tallygate.state.informers.pod_records import PodRecord
from tallygate.state.informers.pod_store import PodStore
from tallygate.state.informers.pool_stores import NODE_CLAIM_CODEC, NODE_POOL_CODEC
from tallygate.state.informers.scheduler_cache import SchedulerCache


class ClusterInformers:
    """The informers and stores of one cluster, each with a thread. `start` works once.

    `scheduler_cache` is the same cluster in the representation of a scheduler.
    """

    def __init__(self, client_config: ClientConfig, timeouts: WatchTimeouts | None = None) -> None:
        self.pods = PodStore()
        self.claims = ClaimStore(time.monotonic)
        self.devices = DeviceStore(self.claims.list_devices)
        self.taint_rules = DeviceTaintRuleStore()
        self.namespaces = NamespaceStore()
        self.nodes = NodeStore()
        self.scheduler_cache = SchedulerCache(self.nodes, self.namespaces)
        node_pools, node_claims = self.scheduler_cache.node_pool_store, self.scheduler_cache.node_claim_store
        self._informers = (
            Informer(NAMESPACE_CODEC, client_config, self.namespaces.apply, self.namespaces.__len__, timeouts),
            Informer(
                self.scheduler_cache.create_pod_codec(self.pods),
                client_config,
                self._apply_pod_event,
                self.pods.__len__,
                timeouts,
            ),
            Informer(NODE_CODEC, client_config, self.nodes.apply, self.nodes.__len__, timeouts),
            Informer(self.claims.codec, client_config, self.claims.apply, self.claims.__len__, timeouts),
            Informer(RESOURCE_SLICE_CODEC, client_config, self.devices.apply, self.devices.__len__, timeouts),
            Informer(
                DEVICE_TAINT_RULE_CODEC, client_config, self.taint_rules.apply, self.taint_rules.__len__, timeouts
            ),
            Informer(
                DEVICE_CLASS_CODEC,
                client_config,
                self.scheduler_cache.device_class_store.apply,
                self.scheduler_cache.device_class_store.__len__,
                timeouts,
            ),
            Informer(NODE_POOL_CODEC, client_config, node_pools.apply, node_pools.__len__, timeouts),
            Informer(NODE_CLAIM_CODEC, client_config, node_claims.apply, node_claims.__len__, timeouts),
        )

    def _apply_pod_event(self, event: WatchEvent[PodRecord]) -> None:
        self.pods.apply(event)
        self.scheduler_cache.apply(event)

    def start(self) -> None:
        """Start all informers."""
        for informer in self._informers:
            informer.start()

    def stop(self) -> None:
        """Stop all informers within about a second; the stores keep their last state."""
        threads = [Thread(target=informer.stop, daemon=True) for informer in self._informers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def request_progress(self) -> None:
        """Request the revision of the cluster from each informer: the answer takes seconds, not a minute."""
        for informer in self._informers:
            informer.request_progress()

    def list_statuses(self) -> tuple[InformerStatus, ...]:
        """Return the status of each informer."""
        return tuple(informer.get_status() for informer in self._informers)


MAX_REVIEW_READS: Final = 16
"""The reads of workloads for reviews at a time; each takes milliseconds."""

_OK: Final = 200
_NOT_FOUND: Final = 404
_PATHS: Final = {
    ConsumerKind.POD: ("/api/v1", "pods"),
    ConsumerKind.CLAIM: ("/apis/resource.k8s.io/v1", "resourceclaims"),
}
_METADATA_DECODER: Final = msgspec.json.Decoder(PartialObjectMetadata)


class BoundedWorkloadReader:
    """A reader of workloads for reviews, with a limit of reads at a time.

    The sender of a review chooses what is read, and a forged review costs him less than the read costs the API server.
    """

    def __init__(self, reader: "LiveReader", max_reads: int = MAX_REVIEW_READS) -> None:
        self._reader = reader
        self._reads = BoundedSemaphore(max_reads)

    def read_workload(self, resource: tuple[str, str, str], namespace: str, name: str) -> bytes | None:
        """Read the JSON of an object of this group, version and plural; None if it does not exist.

        Raises:
            ApiError: if the object cannot be read, or too many reads are in progress; the review can be sent again.
        """
        if not self._reads.acquire(blocking=False):
            raise ApiError(ApiErrorReason.BUSY, "too many reads for reviews are in progress")
        try:
            return self._reader.read_workload(resource, namespace, name)
        finally:
            self._reads.release()


class LiveReader:
    """A reader of single objects, without a resourceVersion: a quorum read (Kubernetes, API concepts)."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def read_revision(self, kind: ConsumerKind, namespace: str, name: str, uid: str) -> int | None:
        """Read the resourceVersion of a pod or claim; None if none has this name and UID.

        Raises:
            ApiError: if the object cannot be read.
        """
        base, plural = _PATHS[kind]
        path = f"{base}/namespaces/{quote(namespace, safe='')}/{plural}/{quote(name, safe='')}"
        response = self._transport.get(path, {})
        if response.status == _NOT_FOUND:
            return None
        if response.status != _OK:
            raise ApiError(ApiErrorReason.REFUSED, f"{kind} {namespace}/{name} cannot be read: HTTP {response.status}")
        try:
            meta = _METADATA_DECODER.decode(response.body).metadata
            return None if meta is None or meta.uid != uid else parse_revision(meta.resource_version or "")
        except ValueError as error:
            raise ApiError(ApiErrorReason.UNREADABLE, f"{kind} {namespace}/{name} cannot be read: {error}") from None

    def read_workload(self, resource: tuple[str, str, str], namespace: str, name: str) -> bytes | None:
        """Read the JSON of an object of this group, version and plural; None if it does not exist.

        Raises:
            ApiError: if the object cannot be read.
        """
        group, version, plural = resource
        base = f"/apis/{group}/{version}" if group else f"/api/{version}"
        response = self._transport.get(
            f"{base}/namespaces/{quote(namespace, safe='')}/{plural}/{quote(name, safe='')}", {}
        )
        if response.status == _NOT_FOUND:
            return None
        if response.status != _OK:
            raise ApiError(
                ApiErrorReason.REFUSED, f"{plural} {namespace}/{name} cannot be read: HTTP {response.status}"
            )
        return response.body
