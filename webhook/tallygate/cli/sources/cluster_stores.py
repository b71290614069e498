"""The stores of all that caps count in a cluster: pods, claims for devices, their classes, and namespaces."""

import time
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple, TypeVar

import msgspec

from tallygate.accounting.amounts import NO_AMOUNTS, Amounts
from tallygate.accounting.names import is_extended
from tallygate.accounting.pod_defaults import PodDefaults
from tallygate.admission.cap_index import ActiveCap, CapIndex
from tallygate.cli.sources.resource_lists import ListError, UnknownResourceError, list_resource
from tallygate.cli.sources.snapshot_reader import identify_slice
from tallygate.cli.sources.unhealthy_store import UnhealthyStore
from tallygate.cluster.counted_claims import ClaimSources, CountedClaim, list_counted_claims
from tallygate.cluster.usage_lister import UsageLister
from tallygate.kube.api_errors import ApiErrorReason
from tallygate.kube.client import ApiClient
from tallygate.kube.resource_codec import Replaced, ResourceCodec, ResourceRecord
from tallygate.objects.core import LimitRange, Pod
from tallygate.objects.devices import DeviceClass, ResourceClaim, ResourceSlice
from tallygate.objects.meta import ObjectMeta
from tallygate.objects.scheduling import PriorityClass, RuntimeClass
from tallygate.policy.limit_annotations import LimitAnnotations
from tallygate.policy.model import PolicySet
from tallygate.state.informers.claim_records import ClaimGroup, ClaimRecord, create_claim_record
from tallygate.state.informers.claim_store import ClaimStore
from tallygate.state.informers.device_store import (
    RESOURCE_SLICE_CODEC,
    DeviceStore,
    SliceRecord,
    create_slice_record,
)
from tallygate.state.informers.named_stores import (
    DEVICE_CLASS_CODEC,
    DeviceClassRecord,
    DeviceClassStore,
    NamespaceStore,
    create_device_class_record,
)
from tallygate.state.informers.namespaced_stores import (
    LIMIT_RANGE_CODEC,
    PRIORITY_CLASS_CODEC,
    RUNTIME_CLASS_CODEC,
    LimitRangeRecord,
    PodDefaultsStore,
    PriorityClassRecord,
    RuntimeClassRecord,
    create_limit_range_record,
    create_priority_class_record,
    create_runtime_class_record,
)
from tallygate.state.informers.pod_records import ChargeGroupInterner, PodRecord, create_pod_record
from tallygate.state.informers.pod_store import PodStore
from tallygate.state.ledger.ledger import Ledger

W = TypeVar("W")
R = TypeVar("R", bound=ResourceRecord)

CLAIMS = "resourceclaims"
CLASSES = DEVICE_CLASS_CODEC.name
SLICES = RESOURCE_SLICE_CODEC.name
_NO_LEDGER = Ledger(NO_AMOUNTS)


class CountedUsage(NamedTuple):
    """The amounts that pods and claims use under a ledger, and the part of those that are being deleted.

    `invalid` has the UIDs of the pods with an invalid quantity, which count nothing. `uncounted` are the names whose
    used amounts are unknown.
    """

    used: Amounts
    terminating: Amounts
    invalid: tuple[str, ...]
    uncounted: frozenset[str] = frozenset()


class ClusterStores:
    """The stores that the gate uses, empty until an event is applied.

    `creation_times` are the creation times of the pods and claims that were decoded here, by UID, in seconds since
    1970. `unread` has a reason for each kind of object that could not be read: claims, classes of devices, slices or
    nodes.
    """

    def __init__(self) -> None:
        self.pods = PodStore()
        self.namespaces = NamespaceStore()
        self.claims = ClaimStore(time.monotonic)
        self.device_classes = DeviceClassStore()
        self.devices = DeviceStore(self.claims.list_devices)
        self.nodes = UnhealthyStore()
        self.pod_defaults = PodDefaultsStore()
        self.usage_lister = UsageLister(
            self.pods, self.namespaces, time.monotonic, lambda: None, claims=self.claims, devices=self.devices
        )
        self.creation_times: dict[str, float] = {}
        self.unread: dict[str, str] = {}
        self._interner = ChargeGroupInterner()
        self._claim_interner = ChargeGroupInterner(ClaimGroup)
        self._caps: tuple[PolicySet, int, CapIndex, LimitAnnotations] | None = None

    def find_pod_defaults(self, namespace: str) -> PodDefaults:
        """Return the values that new pods of a namespace get, as far as the objects that give them were read."""
        store = self.pod_defaults
        return store.find(
            namespace,
            has_limit_ranges=store.limit_ranges.revision is not None,
            has_priority_classes=store.priority_classes.revision is not None,
            has_runtime_classes=store.runtime_classes.revision is not None,
        )

    def create_pod_record(self, pod: Pod) -> PodRecord:
        """Return the record of a stored pod.

        Raises:
            ValueError: if the pod lacks a field that every stored pod has.
        """
        record = create_pod_record(pod, self._interner)
        self._record_creation(record.uid, pod.metadata)
        return record

    def create_claim_record(self, claim: ResourceClaim) -> ClaimRecord:
        """Return the record of a stored claim.

        Raises:
            ValueError: if the claim lacks a field that every stored claim has.
        """
        record = create_claim_record(claim, self._claim_interner)
        self._record_creation(record.uid, claim.metadata)
        return record

    def index_caps(self, policies: PolicySet, now: datetime | None) -> CapIndex:
        """Return the caps of the policies, with the ways to a device that the classes of the cluster give.

        Their limits are those at the time `now`.
        """
        generation, annotations = self.device_classes.generation, self.namespaces.get_limit_annotations()
        if (
            self._caps is None
            or self._caps[0] is not policies
            or self._caps[1] != generation
            or self._caps[3] is not annotations
            or not self._caps[2].is_current(now)
        ):
            caps = CapIndex(policies, now, self.device_classes.get_resources_by_class(), annotations)
            self._caps = policies, generation, caps, annotations
        return self._caps[2]

    def list_claims(
        self, cap: ActiveCap, namespaces: Collection[str], ledger: Ledger | None = None
    ) -> list[CountedClaim]:
        """Return the claims of these namespaces that have a charge under a cap."""
        sources = ClaimSources(self.pods, self.claims, self.devices)
        return list_counted_claims(cap, namespaces, sources, ledger or _NO_LEDGER)

    def count_usage(
        self, cap: ActiveCap, namespaces: Collection[str], terminating: Sequence[str], ledger: Ledger | None
    ) -> CountedUsage:
        """Return the usage of these namespaces under a cap; `terminating` are UIDs of pods that are being deleted."""
        count = self.pods.compute_usage(cap, namespaces, terminating)
        claims = self.list_claims(cap, namespaces, ledger)
        uncounted = self._list_uncounted(cap).union(*(claim.allocated.unknown for claim in claims))
        deleted_pods = (count.used_by_consumer[uid] for uid in terminating if uid in count.used_by_consumer)
        deleted_claims = (claim.counted for claim in claims if claim.claim.is_terminating)
        return CountedUsage(
            sum((claim.counted for claim in claims), count.used),
            sum((*deleted_pods, *deleted_claims), NO_AMOUNTS),
            count.invalid,
            uncounted,
        )

    def _list_uncounted(self, cap: ActiveCap) -> frozenset[str]:
        """Return the names that count devices by what was not read."""
        is_read = self.devices.revision is not None and CLAIMS not in self.unread
        return frozenset() if is_read else frozenset(cap.device_meters)

    def list_unread(self, caps: CapIndex) -> Iterator[str]:
        """Yield a message for each kind of object that could not be read, if a cap may count devices."""
        names = sorted({name for cap in caps.list_caps() for name in cap.device_meters})
        if names or any(
            cap.device_sources or any(map(is_extended, cap.definition.list_requested_names()))
            for cap in caps.list_caps()
        ):
            yield from (f"{effect}: {self.unread[kind]}" for kind, effect in _EFFECTS.items() if kind in self.unread)
        if names and SLICES in self.unread:
            yield f"allocated devices are not counted under {', '.join(names)}: {self.unread[SLICES]}"

    def _record_creation(self, uid: str, metadata: ObjectMeta | None) -> None:
        created = metadata.creation_timestamp if metadata else None
        if created:
            self.creation_times[uid] = datetime.fromisoformat(created).replace(tzinfo=UTC).timestamp()


_EFFECTS = {
    CLAIMS: "claims for devices are not counted",
    CLASSES: "a claim for devices is counted only where a cap names its class",
}


def read_devices(
    client: ApiClient, stores: ClusterStores, namespaces: Sequence[str] = ("",), *, slices: bool = False
) -> None:
    """List the classes of devices, and the claims of all namespaces or of these; record what may not be listed.

    The pods must have been listed before: a claim that is newer than its pod is known to belong to it. The `slices` are
    listed after the claims, on request: they show every device that was allocated.

    Raises:
        ListError: if a list fails for another reason than a missing resource or permission.
    """
    stores.device_classes.apply(list_or_record(client, DEVICE_CLASS_CODEC, stores))
    lists = [list_or_record(client, _create_claim_codec(stores, name), stores) for name in namespaces]
    claims = [claim for each in lists for claim in each.items]
    stores.claims.apply(Replaced(claims, max((each.revision for each in lists), default=0)))
    if slices:
        listed = list_or_record(client, RESOURCE_SLICE_CODEC, stores)
        if SLICES not in stores.unread:
            stores.devices.apply(listed)


def read_pod_defaults(client: ApiClient, stores: ClusterStores, namespaces: Sequence[str] = ("",)) -> None:
    """List the LimitRanges of all namespaces or of these, and the classes; what may not be listed stays unknown.

    Raises:
        ListError: if a list fails for another reason than a missing permission.
    """
    lists = [list_or_record(client, _create_limit_range_codec(name), stores) for name in namespaces]
    if LIMIT_RANGE_CODEC.name not in stores.unread:
        limit_ranges = [item for listed in lists for item in listed.items]
        revision = max((each.revision for each in lists), default=0)
        stores.pod_defaults.limit_ranges.apply(Replaced(limit_ranges, revision))
    classes = list_or_record(client, PRIORITY_CLASS_CODEC, stores)
    if PRIORITY_CLASS_CODEC.name not in stores.unread:
        stores.pod_defaults.priority_classes.apply(classes)
    runtime_classes = list_or_record(client, RUNTIME_CLASS_CODEC, stores)
    if RUNTIME_CLASS_CODEC.name not in stores.unread:
        stores.pod_defaults.runtime_classes.apply(runtime_classes)


def list_or_record(client: ApiClient, codec: ResourceCodec[W, R], stores: ClusterStores) -> Replaced[R]:
    """Return the list: empty if the resource is unknown, or may not be listed, which is recorded.

    Raises:
        ListError: if the list fails for another reason.
    """
    try:
        return list_resource(client, codec)
    except UnknownResourceError:
        return Replaced((), 0)
    except ListError as error:
        if error.cause.reason is not ApiErrorReason.FORBIDDEN:
            raise
        stores.unread[codec.name] = f"{codec.name} may not be listed: {error.cause}"
        return Replaced((), 0)


def _create_claim_codec(stores: ClusterStores, namespace: str) -> ResourceCodec[ResourceClaim, PodRecord]:
    scope = f"namespaces/{namespace}/" if namespace else ""
    path = f"/apis/resource.k8s.io/v1/{scope}{CLAIMS}"
    return ResourceCodec(CLAIMS, path, ResourceClaim, stores.create_claim_record)


def _create_limit_range_codec(namespace: str) -> ResourceCodec[LimitRange, LimitRangeRecord]:
    scope = f"namespaces/{namespace}/" if namespace else ""
    path = f"/api/v1/{scope}{LIMIT_RANGE_CODEC.name}"
    return ResourceCodec(LIMIT_RANGE_CODEC.name, path, LimitRange, create_limit_range_record)


class DefaultItems:
    """The LimitRanges, PriorityClasses and RuntimeClasses of a snapshot, collected for its stores.

    Of LimitRanges and RuntimeClasses a snapshot may have the mark, an empty list; every cluster has PriorityClasses.
    """

    def __init__(self, stores: ClusterStores) -> None:
        self._stores = stores.pod_defaults
        self._limit_ranges: list[LimitRangeRecord] = []
        self._priority_classes: list[PriorityClassRecord] = []
        self._runtime_classes: list[RuntimeClassRecord] = []
        self._known: set[str] = set()

    def add(self, kind: str, item: msgspec.Raw) -> bool:
        """Add an object or a mark, and return whether its kind is that of a class, which no rule evaluates.

        Raises:
            ValueError: if the object is not as a cluster stores it.
        """
        self._known.add(kind.removesuffix("List"))
        match kind:
            case "PriorityClass":
                self._priority_classes.append(create_priority_class_record(_PRIORITY_CLASS_DECODER.decode(item)))
            case "RuntimeClass":
                self._runtime_classes.append(create_runtime_class_record(_RUNTIME_CLASS_DECODER.decode(item)))
            case "LimitRange":
                self._limit_ranges.append(create_limit_range_record(_LIMIT_RANGE_DECODER.decode(item)))
        return kind in {"PriorityClass", "RuntimeClass", "RuntimeClassList"}

    def apply(self, revision: int) -> None:
        """Put what was collected into the stores."""
        if "LimitRange" in self._known:
            self._stores.limit_ranges.apply(Replaced(self._limit_ranges, revision))
        if self._priority_classes:
            self._stores.priority_classes.apply(Replaced(self._priority_classes, revision))
        if "RuntimeClass" in self._known:
            self._stores.runtime_classes.apply(Replaced(self._runtime_classes, revision))


class DeviceItems:
    """The claims, classes and slices of devices of a snapshot, collected for its stores.

    A snapshot without any of a kind knows them only if it has the mark of that kind, an empty list.
    """

    def __init__(self, stores: ClusterStores) -> None:
        self._stores = stores
        self._claims: list[PodRecord] = []
        self._classes: list[DeviceClassRecord] = []
        self._slices: list[SliceRecord] = []
        self._known: set[str] = set()

    def add(self, kind: str, item: msgspec.Raw) -> bool:
        """Add an object or a mark, and return whether its kind is that of a claim, class or slice.

        Raises:
            ValueError: if the object is not as a cluster stores it.
        """
        match kind:
            case "ResourceClaim":
                self._claims.append(self._stores.create_claim_record(_CLAIM_DECODER.decode(item)))
            case "DeviceClass":
                self._classes.append(create_device_class_record(_CLASS_DECODER.decode(item)))
            case "ResourceSlice":
                self._slices.append(create_slice_record(identify_slice(_SLICE_DECODER.decode(item))))
            case "ResourceClaimList" | "DeviceClassList" | "ResourceSliceList":
                pass
            case _:
                return False
        self._known.add(kind.removesuffix("List"))
        return True

    def apply(self, revision: int) -> None:
        """Put what was collected into the stores, and record the kinds that the snapshot does not have."""
        stores = self._stores
        stores.device_classes.apply(Replaced(self._classes, revision))
        stores.claims.apply(Replaced(self._claims, revision))
        if "ResourceSlice" in self._known:
            stores.devices.apply(Replaced(self._slices, revision))
        else:
            stores.unread[SLICES] = f"the snapshot has no {SLICES}"
        if not self._known & {"ResourceClaim", "DeviceClass"}:
            stores.unread[CLAIMS] = f"the snapshot has no {CLAIMS} and no {CLASSES}"
        elif "ResourceClaim" not in self._known:
            stores.unread[CLAIMS] = f"the snapshot has no {CLAIMS}"
        elif "DeviceClass" not in self._known:
            stores.unread[CLASSES] = f"the snapshot has no {CLASSES}"


_CLAIM_DECODER = msgspec.json.Decoder(ResourceClaim)
_CLASS_DECODER = msgspec.json.Decoder(DeviceClass)
_SLICE_DECODER = msgspec.json.Decoder(ResourceSlice)
_LIMIT_RANGE_DECODER = msgspec.json.Decoder(LimitRange)
_PRIORITY_CLASS_DECODER = msgspec.json.Decoder(PriorityClass)
_RUNTIME_CLASS_DECODER = msgspec.json.Decoder(RuntimeClass)
