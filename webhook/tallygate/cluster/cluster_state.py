"""The state of a cluster: its objects in stores by kind, the columns over its nodes, and the usage of caps.

A watch, a list, a snapshot or a scenario fills it; readers do not know which of them did.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from tallygate.accounting.amounts import NO_AMOUNTS, Amounts
from tallygate.accounting.kubernetes_versions.switches import Switch
from tallygate.accounting.kubernetes_versions.version import parse_minor, select_version
from tallygate.accounting.names import is_extended
from tallygate.accounting.node_fit import UnhealthyDevices, iterate_unhealthy
from tallygate.accounting.pod_defaults import PodDefaults
from tallygate.admission.cap_index import ActiveCap, CapIndex
from tallygate.admission.cap_sources import NO_CAP_SOURCES, CapSources
from tallygate.cluster import kinds
from tallygate.cluster.cap_ledger_list import CapLedgerList
from tallygate.cluster.capacities import CapacityReader
from tallygate.cluster.consumers import (
    ClaimSources,
    ConsumerAmounts,
    CountedClaim,
    CountedUsage,
    count_used,
    count_used_by_namespace,
    list_consumers,
    list_counted_claims,
)
from tallygate.cluster.membership import Membership
from tallygate.cluster.rejected_pods import RejectedPodList
from tallygate.cluster.usage_lister import UsageLister, get_ledger_key
from tallygate.kube.resource_codec import ResourceCodec
from tallygate.objects.devices import ResourceClaim
from tallygate.objects.scheduling import SchedulingPod
from tallygate.policy.limit_annotations import LimitRecords
from tallygate.policy.model import PolicySet
from tallygate.state.informers import named_stores, namespaced_stores
from tallygate.state.informers.claim_records import ClaimGroup
from tallygate.state.informers.claim_store import ClaimStore
from tallygate.state.informers.consumer_columns import StoredConsumer
from tallygate.state.informers.device_store import RESOURCE_SLICE_CODEC, DeviceStore
from tallygate.state.informers.pod_records import ChargeGroup
from tallygate.state.informers.pod_store import PodStore
from tallygate.state.informers.pod_templates import PodTemplates
from tallygate.state.ledger.ledger import Ledger
from tallygate.state.ports import LedgerKey

if TYPE_CHECKING:
    from tallygate.accounting.cluster.cluster import Cluster

_NO_POLICIES = PolicySet()
_NO_LEDGER = Ledger(NO_AMOUNTS)
_NO_MEMBERS = Membership(frozenset(), "", 0, 0, 0)


class ClusterState:
    """The stores of a cluster, empty until a builder or a watch applies events. They must not change during a read.

    `monotonic` is in seconds; in a state that is read once no time passes. `synced_at`, `request_progress` and
    `pods_synced_at` are as for a `UsageLister`. `problems` has by resource why its objects are not known.
    `claim_owners` are the claims that templates made, by the UID of their pod. `read_at` is the time of the read, None
    if it is unknown. `limit_records` are the annotations that gates admitted, None if they are unknown. `columns` are
    the nodes and all that scheduling depends on, None unless a builder was asked for them; `pending_pods` are then the
    pods without a node, by namespace and name. `pod_templates` are those of all pods, None unless a server keeps them.
    `git_version` is the version that the API server reports, None if it is unknown.
    """

    def __init__(
        self,
        monotonic: Callable[[], float] = lambda: 0.0,
        synced_at: Callable[[], float | None] = lambda: None,
        request_progress: Callable[[], None] = lambda: None,
        pods_synced_at: Callable[[], float | None] | None = None,
    ) -> None:
        self.pods = PodStore()
        self.namespaces = named_stores.NamespaceStore()
        self.nodes = named_stores.NodeStore()
        self.claims = ClaimStore(monotonic)
        self.claim_templates = namespaced_stores.ClaimTemplateStore()
        self.device_classes = named_stores.DeviceClassStore()
        self.devices = DeviceStore(self.claims.list_devices)
        self.taint_rules = named_stores.DeviceTaintRuleStore()
        self.node_pools, self.node_claims = named_stores.NodePoolStore(), named_stores.NodeClaimStore()
        self.pod_defaults = namespaced_stores.PodDefaultsStore()
        self.quotas = namespaced_stores.QuotaStore()
        self.pod_groups = namespaced_stores.PodGroupStore()
        self.ledgers = CapLedgerList()
        self.rejected_pods = RejectedPodList()
        self.limit_records: LimitRecords | None = None
        self.columns: Cluster | None = None
        self.pending_pods: dict[tuple[str, str], SchedulingPod] = {}
        self.pod_templates: PodTemplates | None = None
        self.git_version: str | None = None
        self.problems: dict[str, kinds.KindProblem] = {}
        self.claim_owners: dict[str, list[tuple[str, str]]] = {}
        self._labels_by_group: WeakKeyDictionary[ChargeGroup, Mapping[str, str]] = WeakKeyDictionary()
        self.read_at: float | None = None
        self.usage_lister = UsageLister(
            self.pods,
            self.namespaces,
            monotonic,
            synced_at,
            request_progress,
            pods_synced_at=pods_synced_at,
            claims=self.claims,
            devices=self.devices,
        )
        self._cap_sources: dict[bool, CapSources] = {}
        self.capacities = CapacityReader(
            self.nodes,
            self.devices,
            self.device_classes,
            lambda resource: "" if self.knows(resource) else self.describe_problem(resource),
        )
        self._caps: tuple[PolicySet, CapSources, CapIndex] | None = None
        self.sources = ClaimSources(self.pods, self.claims, self.devices)

    def get_store(self, resource: str) -> Any:
        """Return the store of a resource."""
        return _STORES[resource](self)

    def get_codec(self, resource: str) -> ResourceCodec[Any, Any]:
        """Return the codec of a resource, whose records its store takes."""
        codec = _CODECS.get(resource)
        own: ResourceCodec[Any, Any] = self.get_store(resource).codec if codec is None else codec
        return own

    def require_columns(self) -> "Cluster":
        """Return the columns of a state that was built with them."""
        assert self.columns is not None  # noqa: S101  # a caller that needs them asks for them
        return self.columns

    def set_version(self, git_version: str) -> None:
        """Set the version that the API server reports, and apply its rules; the columns have a version of their own."""
        self.git_version = git_version
        self.pod_defaults.version = select_version(parse_minor(git_version))

    def find_revision(self) -> int | None:
        """Return the revision up to which namespaces, pods and nodes are known; None if that of one of them is not."""
        revisions = [store.revision for store in (self.namespaces, self.pods, self.nodes)]
        known = [revision for revision in revisions if revision is not None]
        return min(known) if len(known) == len(revisions) else None

    def find_pod_defaults(self, namespace: str) -> PodDefaults:
        """Return the values that new pods of a namespace get, as far as the objects that give them are known."""
        return self.pod_defaults.find(
            namespace,
            has_limit_ranges=self.knows(kinds.LIMIT_RANGES),
            has_priority_classes=self.knows(kinds.PRIORITY_CLASSES),
            has_runtime_classes=self.knows(kinds.RUNTIME_CLASSES),
            keeps_partial=True,
        )

    def knows(self, resource: str) -> bool:
        """Return whether all objects of a resource are in the state."""
        return kinds.is_known(self.problems, resource)

    def describe_problem(self, resource: str) -> str:
        """Return why the objects of a resource are not known; empty if they are."""
        return kinds.describe_problem(self.problems, resource)

    def describe_device_problems(self) -> str:
        """Return why it is not known which devices pods get, as far as kinds of objects are not known."""
        applies_rules = self.columns is not None and self.columns.version.has(Switch.APPLIES_TAINT_RULES)
        rules = (kinds.TAINT_RULES,) if applies_rules else ()
        forbidden = [
            name
            for name in rules
            if not self.knows(name) and self.problems[name].reason is kinds.UnknownReason.FORBIDDEN
        ]
        return kinds.describe_problems(self.problems, (*kinds.DEVICE_RESOURCES, *forbidden))

    def list_effects(self, resources: Collection[str]) -> Iterator[str]:
        """Yield for each of these resources that is not known what is not known without it, and why."""
        return kinds.list_effects(self.problems, resources)

    def index_caps(self, policies: PolicySet, now: datetime | None) -> CapIndex:
        """Return the caps of the policies, with the ways to a device that the classes of the cluster give.

        Their limits are those at the time `now`.
        """
        sources, kept = self.get_cap_sources(policies, now), self._caps
        if kept is None or kept[0] is not policies or kept[1] is not sources or not kept[2].is_current(now):
            kept = self._caps = policies, sources, CapIndex(policies, now, sources)
        return kept[2]

    def get_cap_sources(self, policies: PolicySet = _NO_POLICIES, now: datetime | None = None) -> CapSources:
        """Return what caps depend on besides their policies; the same object until it changes.

        The capacities are those that the policies name percentages of: of the objects that there are, at the time
        `now`. A fall is among them at once.
        """
        computed = self.capacities.compute(policies, now)
        sources = CapSources(
            self.device_classes.get_resources_by_class(),
            self.namespaces.get_limit_annotations(),
            computed.capacities,
            computed.problem or NO_CAP_SOURCES.capacity_problem,
        )
        kept = self._cap_sources.get(policies.needs_nodes, NO_CAP_SOURCES)
        if any(value is not before for value, before in zip(sources, kept, strict=True)):
            self._cap_sources[policies.needs_nodes] = sources
            return sources
        return kept

    def list_caps(self, caps: CapIndex) -> list[ActiveCap]:
        """Return the caps that may have ledgers, by name: each group of a cap is one."""
        records = self.namespaces.list_records()
        return _sort_caps(caps.list_ledger_caps((record.name, record.labels) for record in records))

    def list_caps_of(self, caps: CapIndex, namespace: str) -> list[ActiveCap]:
        """Return the caps without groups, and the groups that count a namespace, by name."""
        labels = self.namespaces.labels(namespace)
        return _sort_caps(caps.list_ledger_caps([] if labels is None else [(namespace, labels)]))

    def list_ungrouped(self, cap: ActiveCap) -> list[str]:
        """Return the namespaces that a cap with groups does not count because they lack its label."""
        records, label = self.namespaces.list_records(), cap.definition.group_by
        return sorted(
            record.name
            for record in records
            if label and label not in record.labels and cap.selects_namespace(record.name, record.labels)
        )

    def list_keys(self, cap: ActiveCap) -> list[LedgerKey]:
        """Return the ledgers of a cap: one if it is shared, else one for each of its member namespaces."""
        shared_key = LedgerKey(cap.key, "")
        if cap.definition.shared:
            return [shared_key]
        return [get_ledger_key(cap, name) for name in sorted(self.get_membership(cap, shared_key).names)]

    def get_membership(self, cap: ActiveCap, key: LedgerKey) -> Membership:
        """Return the member namespaces of a ledger, as the gate finds them."""
        return self.usage_lister.find_membership(cap, key) or _NO_MEMBERS

    def find_ledger(self, key: LedgerKey) -> Ledger | None:
        """Return a stored ledger, None without one, or if it cannot be read."""
        record = self.ledgers.records.get(key)
        return None if record is None else record.ledger

    def list_unknown_ledgers(self, caps: CapIndex) -> list[LedgerKey]:
        """Return the ledgers of caps that are not in `caps`."""
        unknown = (key for key in self.ledgers.records if caps.find_cap(key.cap) is None)
        return sorted(unknown, key=lambda key: (key.cap, key.namespace))

    def list_empty_groups(self, caps: CapIndex) -> list[ActiveCap]:
        """Return the groups that have a ledger and no longer a namespace."""
        listed = {cap.key for cap in self.list_caps(caps)}
        known = map(caps.find_cap, {key.cap for key in self.ledgers.records})
        empty = [cap for cap in known if cap is not None and cap.key not in listed]
        return sorted(empty, key=lambda cap: cap.key)

    def list_deleted_namespaces(self, caps: CapIndex) -> list[str]:
        """Return the deleted namespaces for which a ledger of the caps still exists."""
        cap_keys = {cap.key for cap in caps.list_caps()}
        namespaces = {key.namespace for key in self.ledgers.records if key.namespace and key.cap in cap_keys}
        return sorted(name for name in namespaces if self.namespaces.find(name) is None)

    def list_consumers(
        self, cap: ActiveCap, namespaces: Collection[str], ledger: Ledger | None = None, *, by_pod: bool = False
    ) -> Iterator[ConsumerAmounts]:
        """Return an iterator over the consumers of these namespaces under a cap; `by_pod`, every pod is one."""
        return list_consumers(cap, namespaces, self.sources, ledger or _NO_LEDGER, by_pod=by_pod)

    def list_claims(
        self, cap: ActiveCap, namespaces: Collection[str], ledger: Ledger | None = None
    ) -> list[CountedClaim]:
        """Return the claims of these namespaces that have a charge under a cap."""
        return list_counted_claims(cap, namespaces, self.sources, ledger or _NO_LEDGER)

    def count_usage(self, cap: ActiveCap, members: Collection[str], ledger: Ledger | None) -> CountedUsage:
        """Return the usage of the member namespaces of a ledger."""
        count = count_used(cap, members, self.sources, ledger or _NO_LEDGER)
        return count._replace(uncounted=count.uncounted | self.list_uncounted(cap))

    def count_usage_by_namespace(
        self, cap: ActiveCap, namespaces: Collection[str], ledger: Ledger | None
    ) -> Mapping[str, Amounts]:
        """Return what each of these namespaces uses under a cap."""
        return count_used_by_namespace(cap, namespaces, self.sources, ledger or _NO_LEDGER)

    def list_uncounted(self, cap: ActiveCap) -> frozenset[str]:
        """Return the names of a cap that count devices by objects that are not known."""
        are_known = self.devices.revision is not None and self.knows(kinds.CLAIMS)
        return frozenset() if are_known else frozenset(cap.device_meters)

    def list_unread(self, caps: CapIndex) -> Iterator[str]:
        """Yield a message for each kind of objects about devices that is not known, if a cap may count devices."""
        names = sorted({name for cap in caps.list_caps() for name in cap.device_meters})
        yield from caps.list_unmeasured()
        if names or any(
            cap.device_sources or any(map(is_extended, cap.definition.list_requested_names()))
            for cap in caps.list_caps()
        ):
            yield from self.list_effects((kinds.CLASSES,) if self.knows(kinds.CLAIMS) else (kinds.CLAIMS,))
        if names and not self.knows(kinds.SLICES):
            effect = kinds.KINDS_BY_RESOURCE[kinds.SLICES].without
            yield f"{effect} under {', '.join(names)}: {self.describe_problem(kinds.SLICES)}"

    def list_unhealthy_devices(self, resources: Collection[str]) -> tuple[UnhealthyDevices, ...]:
        """Return the unhealthy devices of these resources, by resource and node."""
        found = [
            devices
            for node in self.nodes.list_nodes()
            for devices in iterate_unhealthy((node.metadata and node.metadata.name) or "", node)
            if devices.resource in resources
        ]
        return tuple(sorted(found, key=lambda devices: (devices.resource, devices.node)))

    def list_template_claims(self, pod_uid: str) -> Sequence[ResourceClaim]:
        """Return the claims that templates made for a stored pod."""
        records = (self.claims.find_record(*name) for name in self.claim_owners.get(pod_uid, ()))
        return [record.group.to_claim() for record in records if record and isinstance(record.group, ClaimGroup)]

    def read_labels(self, pod: StoredConsumer) -> Mapping[str, str]:
        """Return the labels of a stored pod."""
        labels = self._labels_by_group.get(pod.group)
        if labels is None:
            metadata = pod.group.to_pod().metadata
            labels = self._labels_by_group[pod.group] = (metadata.labels if metadata else None) or {}
        return labels


def _sort_caps(caps: Iterable[ActiveCap]) -> list[ActiveCap]:
    return sorted(caps, key=lambda cap: (cap.definition.name, cap.group_value or ""))


_CODECS: Final[Mapping[str, ResourceCodec[Any, Any]]] = {
    codec.name: codec
    for codec in (
        named_stores.NAMESPACE_CODEC,
        named_stores.NODE_CODEC,
        namespaced_stores.QUOTA_CODEC,
        namespaced_stores.LIMIT_RANGE_CODEC,
        namespaced_stores.PRIORITY_CLASS_CODEC,
        namespaced_stores.RUNTIME_CLASS_CODEC,
        named_stores.DEVICE_CLASS_CODEC,
        RESOURCE_SLICE_CODEC,
        named_stores.DEVICE_TAINT_RULE_CODEC,
        named_stores.NODE_POOL_CODEC,
        named_stores.NODE_CLAIM_CODEC,
        namespaced_stores.POD_GROUP_CODEC,
    )
}
_STORES: Final[Mapping[str, Callable[[ClusterState], Any]]] = {
    kinds.PODS: lambda state: state.pods,
    kinds.NAMESPACES: lambda state: state.namespaces,
    kinds.NODES: lambda state: state.nodes,
    kinds.QUOTAS: lambda state: state.quotas,
    kinds.LIMIT_RANGES: lambda state: state.pod_defaults.limit_ranges,
    kinds.PRIORITY_CLASSES: lambda state: state.pod_defaults.priority_classes,
    kinds.RUNTIME_CLASSES: lambda state: state.pod_defaults.runtime_classes,
    kinds.CLASSES: lambda state: state.device_classes,
    kinds.CLAIMS: lambda state: state.claims,
    kinds.TEMPLATES: lambda state: state.claim_templates,
    kinds.SLICES: lambda state: state.devices,
    kinds.TAINT_RULES: lambda state: state.taint_rules,
    named_stores.NODE_POOL_CODEC.name: lambda state: state.node_pools,
    named_stores.NODE_CLAIM_CODEC.name: lambda state: state.node_claims,
    kinds.POD_GROUPS: lambda state: state.pod_groups,
}
