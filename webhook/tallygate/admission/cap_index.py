"""The caps that count a pod or a claim for devices, and its charge under each.

The functions are pure. Ledgers are in `tallygate.state`; the gate combines both.
"""

import hashlib
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache

import msgspec

from tallygate.accounting import claim_charge
from tallygate.accounting.amounts import NO_AMOUNTS, Amounts, format_amount
from tallygate.accounting.charge import Charge, compute_charge, compute_hard_limits, is_as_requested
from tallygate.accounting.derived_amounts import (
    DerivedAmount,
    Product,
    WeightedSum,
    create_product,
    create_weighted_sum,
)
from tallygate.accounting.devices.device_meter import DeviceMeter, create_meter
from tallygate.accounting.gpu_annotations import GpuAnnotation, select_gpu_annotations
from tallygate.accounting.names import ALLOCATED_MARK, DERIVED_MARK, is_extended
from tallygate.accounting.result_cache import Fingerprint, FingerprintCache
from tallygate.admission.cap_sources import NO_CAP_SOURCES, CapSources
from tallygate.admission.capacity_limits import NO_CAPACITY, CapacityShare, resolve_limits
from tallygate.admission.class_view import NO_POD_CLASSES, ClassView, PodClasses, UnseenClass
from tallygate.admission.limit_schedule import CurrentLimits, LimitSchedule
from tallygate.objects.core import Pod
from tallygate.objects.devices import ResourceClaim
from tallygate.policy.globs import is_literal
from tallygate.policy.guarantees import NO_GUARANTEES, resolve_guarantees
from tallygate.policy.limit_annotations import read_overrides
from tallygate.policy.matching import counts_claim, counts_pod, matches_namespace
from tallygate.policy.model import LimitOverride, NamespaceCap, PodFilter, PolicySet

_MAX_CACHED_NAMESPACES = 4096
_MAX_CACHED_GROUPS = 4096
_GROUP_MARK = "="
"""It separates the value of a group in a key, and is in no name of a policy."""
_ALIKE = 2
"""The number of sources besides capacities: device classes and annotations come first."""
_NO_CHARGE = Charge()
_EVERY_POD_FILTER = PodFilter()

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ActiveCap:
    """A cap of the active policy set: `key` is its name and a hash of its counting rules.

    `hard` and `soft` are in amounts. Two caps of one name with different counting rules have different keys, and so
    different ledgers. `device_sources` are the ways to a device under each name that stands for devices, and
    `device_meters` the definitions of names that count devices by their attributes or capacities. `derived` are the
    definitions of names whose amounts are derived from several resources. `surge` are the amounts above `hard` that
    pods of a controller that rolls may use. `soft_shares` are the soft limits that are percentages; those of an
    unknown capacity are `unknown_soft`.

    `classes` are the device classes as this replica sees them.

    Limits are no part of the key: an override ends within the same ledger. `schedule` has those of groups and
    namespaces at the time of the index.

    A definition with `group_by` has one cap for each value of the label, with the value as `group_value` and at the end
    of its key. The cap without a value stands for all of them, and has no ledger.
    """

    definition: NamespaceCap
    key: str
    limits: CurrentLimits
    soft: Amounts
    device_sources: Mapping[str, claim_charge.DeviceSources] = field(default_factory=dict, compare=False)
    device_meters: Mapping[str, DeviceMeter] = field(default_factory=dict, compare=False)
    derived: Mapping[str, DerivedAmount] = field(default_factory=dict, compare=False)
    surge: Amounts = NO_AMOUNTS
    soft_shares: Mapping[str, CapacityShare] = field(default_factory=dict, compare=False)
    unknown_soft: frozenset[str] = frozenset()
    group_value: str | None = None
    schedule: LimitSchedule | None = field(default=None, repr=False, compare=False)
    classes: ClassView = field(default_factory=ClassView, repr=False, compare=False)
    hard: Amounts = field(init=False)
    resources: frozenset[str] = field(init=False)
    """The resources that the cap counts, with a hard or only a soft limit."""
    counted: frozenset[str] = field(init=False)
    """The resources, and the ways to a device under them: what a ledger of the cap must count."""
    mappings: claim_charge.ClassMappings = field(init=False, compare=False)
    """The mappings of device classes by which the cap counts."""
    active_key: str = field(init=False, compare=False)
    """The key with all that the cap counts: it changes with the classes of devices, as by a change of policies."""
    is_selective: bool = field(init=False, repr=False, compare=False)
    """Whether the cap counts only some of the pods in its namespaces."""
    counts_claims: bool = field(init=False, repr=False, compare=False)
    """Whether the cap may count claims for devices."""
    has_sources: bool = field(init=False, repr=False, compare=False)
    """Whether a ledger of the cap must count more than its resources: definitions, or ways to a device."""
    annotations: frozenset[GpuAnnotation] = field(init=False, repr=False, compare=False)
    """The amounts requested by annotations that the cap counts."""
    _pod_resources: frozenset[str] = field(init=False, repr=False, compare=False)
    _pod_sources: Mapping[str, claim_charge.DeviceSources] = field(init=False, repr=False, compare=False)
    _source_texts: Mapping[str, frozenset[str]] = field(init=False, repr=False, compare=False)
    _charges: FingerprintCache[Charge] = field(init=False, default_factory=FingerprintCache, repr=False, compare=False)
    _pod_classes: FingerprintCache[PodClasses] = field(
        init=False, default_factory=FingerprintCache, repr=False, compare=False
    )
    _by_limits: dict[CurrentLimits, "ActiveCap"] = field(init=False, default_factory=dict, repr=False, compare=False)
    _guarantees: dict[frozenset[str], Mapping[str, Amounts]] = field(
        init=False, default_factory=dict, repr=False, compare=False
    )
    _by_former: dict[claim_charge.ClassMappings, "ActiveCap"] = field(
        init=False, default_factory=dict, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "hard", self.limits.hard)
        resources = frozenset(self.definition.hard.keys() | self.definition.soft.keys())
        texts = {name: source.list_texts(name) for name, source in self.device_sources.items()}
        texts |= {
            name: frozenset({f"{name}{ALLOCATED_MARK}{meter.identity}"}) for name, meter in self.device_meters.items()
        }
        texts |= {
            name: frozenset({f"{name}{DERIVED_MARK}{derived_name.identity}"})
            for name, derived_name in self.derived.items()
        }
        pod_sources = {name: source for name, source in self.device_sources.items() if name not in self.derived}
        sums = (amount for amount in self.derived.values() if isinstance(amount, WeightedSum))
        annotations = frozenset(amount.annotation for amount in sums if amount.annotation is not None)
        object.__setattr__(self, "annotations", annotations)
        object.__setattr__(self, "resources", resources)
        object.__setattr__(self, "_pod_resources", resources - self.device_meters.keys() - self.derived.keys())
        object.__setattr__(self, "_pod_sources", pod_sources)
        object.__setattr__(self, "counted", resources.union(*texts.values()))
        object.__setattr__(self, "_source_texts", texts)
        object.__setattr__(self, "active_key", " ".join((self.policy_key, *sorted(self.counted - resources))))
        object.__setattr__(self, "counts_claims", bool(self.device_sources or self.device_meters))
        object.__setattr__(self, "has_sources", bool(texts))
        by_name = [source.classes for source in self.device_sources.values()]
        by_name += [product.classes for product in self._list_products()]
        object.__setattr__(self, "mappings", self.classes.select_mappings(frozenset().union(*by_name)))
        object.__setattr__(self, "is_selective", self.definition.pods != _EVERY_POD_FILTER)

    @property
    def policy_key(self) -> str:
        """The key without the value of the group: equal for all groups of one definition."""
        return get_policy_key(self.key)

    @property
    def group(self) -> str:
        """The label and value of the group, as in `team=vision`; empty for a cap without groups."""
        return "" if self.group_value is None else f"{self.definition.group_by}{_GROUP_MARK}{self.group_value}"

    def create_group(self, value: str) -> "ActiveCap":
        """Return the cap of the namespaces with this value of the label."""
        limits = self.limits if self.schedule is None else self.schedule.find_limits(value, "")
        group = replace(self, key=f"{self.policy_key}{_GROUP_MARK}{value}", limits=limits, group_value=value)
        return self._share_results(group)

    def _share_results(self, cap: "ActiveCap") -> "ActiveCap":
        """Return a copy of this cap that counts the same, whatever its limits, with the results of both."""
        object.__setattr__(cap, "_charges", self._charges)
        object.__setattr__(cap, "_pod_classes", self._pod_classes)
        return cap

    def complete_limits(self, stored: Amounts) -> Amounts:
        """Return the hard limits of a ledger that has the `stored` ones.

        Those of names whose limit is not known here stay: what is unknown neither raises nor removes a limit (rule 8).
        """
        kept = {name: stored[name] for name in self.limits.unknown if name in stored}
        return Amounts({**self.hard, **kept}) if kept else self.hard

    def choose_limits(self, namespace: str) -> "ActiveCap":
        if self.schedule is None or not self.schedule.has_namespaces:
            return self
        limits = self.schedule.find_limits(self.group_value, namespace)
        if limits is self.limits:
            return self
        cap = self._by_limits.get(limits)
        if cap is None:
            cap = self._by_limits[limits] = self._share_results(replace(self, limits=limits))
        return cap

    def resolve_guarantees(self, members: frozenset[str]) -> Mapping[str, Amounts]:
        """Return the guarantees of these member namespaces, of those that have any; shares are of the limits now."""
        if not self.definition.guarantee or not self.definition.shared:
            return NO_GUARANTEES
        guarantees = self._guarantees.get(members)
        if guarantees is None:
            self._guarantees.clear()  # of earlier members
            guarantees = self._guarantees[members] = resolve_guarantees(self.definition.guarantee, self.hard, members)
        return guarantees

    def resolve_most_guarantees(self, members: frozenset[str]) -> Mapping[str, Amounts]:
        """Return the guarantees of these member namespaces by the largest limits from now on."""
        most = Amounts({name: self.limits.get_most(name) for name in self.hard})
        if most == self.hard or not self.definition.shared:
            return self.resolve_guarantees(members)
        return resolve_guarantees(self.definition.guarantee, most, members)

    def resolve_named_guarantees(self) -> Mapping[str, Amounts]:
        """Return the guarantees of the namespaces that the policy names and the cap selects, whatever their labels."""
        named = {name for entry in self.definition.guarantee for name in entry.namespaces if is_literal(name)}
        return self.resolve_guarantees(frozenset(name for name in named if self.matches_namespace(name, None)))

    def with_former(self, mappings: claim_charge.ClassMappings) -> "ActiveCap":
        """Return the cap that counts by these mappings of device classes too: those that a ledger was counted with.

        It is active since the same time as this one.
        """
        if mappings <= self.mappings:
            return self
        former = self.classes.select_former(mappings) - self.classes.former
        if not former:
            return self
        cap = self._by_former.get(former)
        if cap is None:
            names = self.resources - self.device_meters.keys()
            classes = msgspec.structs.replace(self.classes, former=self.classes.former | former)
            sources, derived = _find_ways(self.definition, names, classes.resources_by_class, classes.former)
            cap = replace(self, device_sources=sources, derived=derived, classes=classes)
            object.__setattr__(cap, "active_key", self.active_key)
            self._by_former[former] = cap
        return cap

    def examine_classes(self, pod: Pod, fingerprint: Fingerprint | None = None) -> PodClasses:
        """Return what the device classes that a pod names change in its charge under this cap.

        `fingerprint` is the fingerprint of the pod, if the caller has computed it already.

        Raises:
            QuantityError: if a quantity of the pod is invalid.
        """
        if not self.classes.may_be_unseen or (self.is_selective and not counts_pod(self.definition.pods, pod)):
            return NO_POD_CLASSES
        if fingerprint is None:
            return self.classes.examine_pod(pod, self.device_sources)
        found = self._pod_classes.get(fingerprint)
        if found is None:
            found = self.classes.examine_pod(pod, self.device_sources)
            self._pod_classes.put(fingerprint, found)
        return found

    def may_count_claim_by_mapping(self, claim: ResourceClaim) -> bool:
        """Return whether a claim may count under a hard limit of this cap by another mapping of its classes."""
        return bool(self.classes.open_names) and not (
            self.is_selective and not counts_claim(self.definition.pods, claim)
        )

    def find_unseen_class_of_claim(self, claim: ResourceClaim) -> UnseenClass | None:
        """Return an unseen class that decides what a claim counts; None if its charge is known."""
        if self.is_selective and not counts_claim(self.definition.pods, claim):
            return None
        return self.classes.find_in_claim(claim)

    def matches_namespace(self, namespace: str, labels: Labels | None) -> bool | None:
        """Return whether the cap counts a namespace, or None if that depends on its labels and they are unknown.

        The cap that stands for all groups matches a namespace with any value of the label.
        """
        is_matching, label = self.selects_namespace(namespace, labels), self.definition.group_by
        if not label or is_matching is False:
            return is_matching
        if labels is None:
            return None
        return label in labels if self.group_value is None else labels.get(label) == self.group_value

    def selects_namespace(self, namespace: str, labels: Labels | None) -> bool | None:
        """Return whether the selector matches a namespace, whatever its group; None if its labels must be known."""
        return matches_namespace(self.definition.namespaces, namespace, labels)

    def find_group_value(self, namespace: str, labels: Labels) -> str | None:
        """Return the value of the group that counts a namespace, or None."""
        return labels.get(self.definition.group_by) if self.selects_namespace(namespace, labels) else None

    def list_sources(self, names: Collection[str]) -> frozenset[str]:
        """Return the ways to a device under these names, as a ledger records them."""
        texts = [self._source_texts[name] for name in names if name in self._source_texts]
        return texts[0] if len(texts) == 1 else frozenset().union(*texts)

    def counts_allocation(self, claim: ResourceClaim, *, is_owned: bool) -> bool:
        """Return whether the devices of a claim count under names that are defined by attributes or capacities.

        A claim that kube-scheduler seems to have made for a pod (`is_owned`) has neither labels nor priority class, and
        nothing else counts its devices by attributes: it counts under every cap.
        """
        return bool(self.device_meters) and (
            is_owned or not self.is_selective or counts_claim(self.definition.pods, claim)
        )

    def compute_claim_charge(self, claim: ResourceClaim | None) -> Amounts:
        """Return the charge of a claim under this cap: empty without a claim, or if the cap does not count the claim.

        A cap that selects pods by their priority class or node selector counts no claim: a claim has neither.
        """
        if claim is None or not self._counts_claim(claim):
            return NO_AMOUNTS
        return claim_charge.compute_claim_charge(claim, self.device_sources)

    def compute_least_claim_charge(self, claim: ResourceClaim) -> Amounts:
        """Return the least that a claim counts under this cap once it is allocated."""
        return (
            claim_charge.compute_least_devices(claim, self.device_sources) if self._counts_claim(claim) else NO_AMOUNTS
        )

    def describe_soft(self, name: str) -> str:
        """Return the soft limit of a name, with the percentage that it is."""
        limit, share = format_amount(name, self.soft[name]), self.soft_shares.get(name)
        return limit if share is None else f"{limit} ({share.describe(name)})"

    @property
    def multiplies_devices(self) -> bool:
        """Whether devices of a claim may be a factor of a product, which is then unknown."""
        return any(product.classes for product in self._list_products())

    def _list_products(self) -> list[Product]:
        return [amount for amount in self.derived.values() if isinstance(amount, Product)]

    def list_unknown_products(self, claim: ResourceClaim) -> list[str]:
        if not self.derived or (self.is_selective and not counts_claim(self.definition.pods, claim)):
            return []
        devices = claim.spec.devices if claim.spec else None
        requests = (devices.requests if devices else None) or ()
        products = {
            name: derived_name for name, derived_name in self.derived.items() if isinstance(derived_name, Product)
        }
        return sorted(name for name, product in products.items() if product.counts_claim(requests))

    def _counts_claim(self, claim: ResourceClaim) -> bool:
        if not self.device_sources:
            return False
        return not self.is_selective or counts_claim(self.definition.pods, claim)

    def compute_charge(self, pod: Pod | None, fingerprint: Fingerprint | None = None) -> Charge:
        """Return the charge of a pod under this cap: empty without a pod, or if the cap does not count the pod.

        `fingerprint` is the fingerprint of the pod, if the caller has computed it already.

        Raises:
            QuantityError: if a quantity of the pod is invalid.
        """
        if pod is None or (self.is_selective and not counts_pod(self.definition.pods, pod)):
            return _NO_CHARGE
        if fingerprint is None or not is_as_requested(pod):
            return compute_charge(pod, self._pod_resources, self._pod_sources, self.derived)
        if self.annotations and pod.metadata is not None and pod.metadata.annotations:
            fingerprint = (*fingerprint, *select_gpu_annotations(pod.metadata.annotations).items())
        result = self._charges.get(fingerprint)
        if result is None:
            result = compute_charge(pod, self._pod_resources, self._pod_sources, self.derived)
            self._charges.put(fingerprint, result)
        return result


@dataclass(frozen=True, slots=True)
class MatchingCaps:
    """The caps of one namespace; `unknown` names the caps that select by labels, where the labels are unknown.

    `unknown_limits` are those of them that have a hard limit.
    """

    caps: tuple[ActiveCap, ...]
    unknown: tuple[str, ...]
    unknown_limits: tuple[str, ...] = ()


class CapIndex:
    """An index of all caps of a policy set, with their limits at one time.

    Without a time (`now`) these are the limits after the ends of all overrides.
    """

    def __init__(self, policies: PolicySet, now: datetime | None, sources: CapSources = NO_CAP_SOURCES) -> None:
        annotated = {
            cap.name: read_overrides(cap, sources.annotations) if cap.annotation else {} for cap in policies.caps
        }
        caps = (_create_active_cap(cap, now, sources, annotated[cap.name]) for cap in policies.caps)
        self._policies, self.sources = policies, sources
        self._caps = tuple(sorted(caps, key=lambda active_cap: active_cap.key))
        overrides = (override for cap in policies.caps for override in (*cap.overrides, *annotated[cap.name].values()))
        self._ends = sorted({override.until for override in overrides if override.until is not None})
        self.reads_annotations = any(cap.annotation for cap in policies.caps)
        self.reads_capacities = any(cap.follows_capacity for cap in policies.caps)
        self._capacity_problem = sources.capacity_problem
        self._ended = self._count_ended(now)
        self._caps_by_key = {cap.key: cap for cap in self._caps}
        self._grouped = tuple(cap for cap in self._caps if cap.definition.group_by)
        self.needs_labels = any(cap.namespaces.selector or cap.group_by for cap in policies.caps)
        self._create_group_cached = lru_cache(maxsize=_MAX_CACHED_GROUPS)(self._create_group)
        self._find_matching_cached = lru_cache(maxsize=_MAX_CACHED_NAMESPACES)(self._match_namespace)

    def __bool__(self) -> bool:
        return bool(self._caps)

    @property
    def may_change(self) -> bool:
        """Whether limits change with the time."""
        return bool(self._ends)

    def is_current(self, now: datetime | None) -> bool:
        """Return whether the limits of this index are those at a time."""
        return not self._ends or self._count_ended(now) == self._ended

    def find_changed_limits(self, before: "CapIndex") -> frozenset[str] | None:
        """Return the keys of the caps whose limits differ from those of an earlier index.

        None if more than capacities has changed, so that anything may differ.
        """
        is_alike = self._policies is before._policies and self._ended == before._ended  # noqa: SLF001  # same class
        if not is_alike or self.sources[:_ALIKE] != before.sources[:_ALIKE]:
            return None
        following = (cap for cap in self._caps if cap.definition.follows_capacity)
        return frozenset(
            cap.key
            for cap in following
            if _resolve_hard(cap.definition, self.sources) != _resolve_hard(cap.definition, before.sources)
        )

    def reads_change(self, before: CapSources, after: CapSources) -> bool:
        """Return whether limits may differ by a change of annotations or capacities."""
        if self.reads_annotations and before.annotations is not after.annotations:
            return True
        return self.reads_capacities and before.capacities is not after.capacities

    def _count_ended(self, now: datetime | None) -> int:
        return len(self._ends) if now is None else bisect_right(self._ends, now)

    def list_caps(self) -> tuple[ActiveCap, ...]:
        """Return every cap, ordered by key; a cap with `group_by` once, for all its groups."""
        return self._caps

    def list_unmeasured(self) -> Iterator[str]:
        """Yield a message for each cap with a limit that is a percentage of a capacity that is not known."""
        for cap in self._caps:
            unknown = sorted(cap.limits.unknown | cap.unknown_soft)
            if unknown:
                names = ", ".join(unknown)
                yield f"cap {cap.definition.name} was not evaluated for {names}: {self._capacity_problem}"

    def find_cap(self, key: str, namespace: str = "") -> ActiveCap | None:
        """Return the cap of a ledger by its key and namespace, or None if no cap of the set has the key."""
        policy_key, mark, value = key.partition(_GROUP_MARK)
        cap = self._caps_by_key.get(policy_key)
        if cap is None or bool(mark) is not bool(cap.definition.group_by):
            return None
        return self._create_group_cached(policy_key, value) if mark else cap.choose_limits(namespace)

    def list_groups(self, namespace: str, labels: Labels) -> Iterator[ActiveCap]:
        for cap in self._grouped:
            value = cap.find_group_value(namespace, labels)
            if value is not None:
                yield self._create_group_cached(cap.key, value)

    def list_ledger_caps(self, namespaces: Iterable[tuple[str, Labels]]) -> tuple[ActiveCap, ...]:
        """Return every cap that may have ledgers: those without groups, and the groups of these namespaces."""
        caps = {cap.key: cap for cap in self._caps if not cap.definition.group_by}
        if self._grouped:
            caps |= {cap.key: cap for name, labels in namespaces for cap in self.list_groups(name, labels)}
        return tuple(caps[key] for key in sorted(caps))

    def _create_group(self, policy_key: str, value: str) -> ActiveCap:
        return self._caps_by_key[policy_key].create_group(value)

    def find_matching(self, namespace: str, labels: Labels | None) -> MatchingCaps:
        """Return the caps of a namespace, in the order in which their ledgers are written."""
        return self._find_matching_cached(
            namespace, frozenset(labels.items()) if labels is not None and self.needs_labels else None
        )

    def _match_namespace(self, namespace: str, labels: frozenset[tuple[str, str]] | None) -> MatchingCaps:
        labels_by_key = dict(labels) if labels is not None else None
        results = [(active_cap, active_cap.matches_namespace(namespace, labels_by_key)) for active_cap in self._caps]
        return MatchingCaps(
            tuple(
                self._create_group_cached(cap.key, (labels_by_key or {})[cap.definition.group_by])
                if cap.definition.group_by
                else cap.choose_limits(namespace)
                for cap, is_matching in results
                if is_matching
            ),
            tuple(cap.definition.name for cap, is_matching in results if is_matching is None),
            tuple(cap.definition.name for cap, is_matching in results if is_matching is None and cap.hard),
        )


def get_cap_name(key: str) -> str:
    """Return the name of the cap with this key."""
    return get_policy_key(key).rpartition("-")[0]


def get_policy_key(key: str) -> str:
    """Return the key of a cap without the value of its group."""
    return key.partition(_GROUP_MARK)[0]


def find_key_value(key: str) -> str | None:
    """Return the value of the group with this key, or None without groups."""
    _, mark, value = key.partition(_GROUP_MARK)
    return value if mark else None


def _resolve_hard(definition: NamespaceCap, sources: CapSources) -> tuple[Amounts, frozenset[str]]:
    resolved = resolve_limits(definition.hard, sources.capacities.get(definition.name, NO_CAPACITY))
    return resolved.amounts, resolved.unknown


def _create_active_cap(
    definition: NamespaceCap,
    now: datetime | None,
    sources: CapSources,
    annotated: Mapping[str, LimitOverride],
) -> ActiveCap:
    resources_by_class, capacities = sources.resources_by_class, sources.capacities.get(definition.name, NO_CAPACITY)
    hard, soft = (resolve_limits(written, capacities) for written in (definition.hard, definition.soft))
    schedule = LimitSchedule(definition, hard, now, annotated) if definition.overrides or annotated else None
    limits = CurrentLimits(hard.amounts, shares=hard.shares, unknown=hard.unknown)
    if schedule is not None:
        limits = schedule.find_limits(None, "")
    names = definition.hard.keys() | definition.soft.keys()
    meters = {
        name: create_meter(device.selector, device.sum)
        for name, device in definition.devices.items()
        if device.is_by_allocation and name in names
    }
    ways, derived = _find_ways(definition, names - meters.keys(), resources_by_class)
    return ActiveCap(
        definition,
        f"{definition.name}-{_hash_counting_rules(definition)}",
        limits,
        soft.amounts,
        ways,
        meters,
        derived,
        compute_hard_limits(definition.surge.amounts) if definition.surge else NO_AMOUNTS,
        schedule=schedule,
        soft_shares=soft.shares,
        unknown_soft=soft.unknown,
        classes=_create_class_view(definition, definition.hard.keys() - meters.keys(), resources_by_class),
    )


def _create_class_view(
    definition: NamespaceCap, names: AbstractSet[str], resources_by_class: Mapping[str, str]
) -> ClassView:
    if resources_by_class is claim_charge.UNSERVED_CLASSES:
        return ClassView(resources_by_class)
    sources, derived = _find_ways(definition, names, claim_charge.NO_CLASSES)
    classes = {name: source.classes for name, source in sources.items()}
    classes |= {
        name: derived_name.classes
        for name, derived_name in derived.items()
        if isinstance(derived_name, Product) and derived_name.classes
    }
    open_names = {}
    for name in sorted(names):
        count = definition.counts.get(name)
        counted = (name,) if count is None else (*count.weights, *count.product)
        if any(is_extended(resource) and not claim_charge.find_named_class(resource) for resource in counted):
            # a class of a weighted sum may have another weight by its mapping
            open_names[name] = classes.get(name, frozenset()) if count is None else frozenset()
    return ClassView(resources_by_class, claim_charge.NO_MAPPINGS, open_names, classes)


def _find_ways(
    definition: NamespaceCap,
    names: AbstractSet[str],
    resources_by_class: Mapping[str, str],
    former: claim_charge.ClassMappings = claim_charge.NO_MAPPINGS,
) -> tuple[dict[str, claim_charge.DeviceSources], dict[str, DerivedAmount]]:
    """Return the ways to a device under each of these names that stands for some, and the derived amounts."""
    mapped_classes = {name: device.classes for name, device in definition.devices.items()}
    derived: dict[str, DerivedAmount] = {}
    for name in names & definition.counts.keys():
        count = definition.counts[name]
        if count.product:
            derived[name] = create_product(name, count.product, resources_by_class, former, count.defaults)
        else:
            derived[name] = create_weighted_sum(
                count.weights, resources_by_class, mapped_classes, former, count.annotation
            )
    sources = claim_charge.find_device_sources(names - derived.keys(), resources_by_class, mapped_classes, former)
    weighted = {
        name: derived_name.sources
        for name, derived_name in derived.items()
        if isinstance(derived_name, WeightedSum) and derived_name.classes
    }
    return sources | weighted, derived


def _hash_counting_rules(definition: NamespaceCap) -> str:
    """Return a hash (10 hex digits) of namespaces, groups, pod filter and sharing, without the limits."""
    rules: tuple[object, ...] = (definition.namespaces, definition.shared, definition.pods)
    if definition.group_by:  # otherwise as before there were groups: the ledgers of a cluster remain
        rules += (definition.group_by,)
    encoded = msgspec.json.encode(_name_fields(rules), order="sorted")
    return hashlib.sha256(encoded).hexdigest()[:10]


def _name_fields(value: object) -> object:
    """Return the values of Structs by the names of their fields, which stay when those of a document change."""
    if isinstance(value, msgspec.Struct):
        return {name: _name_fields(field) for name, field in msgspec.structs.asdict(value).items()}
    return tuple(map(_name_fields, value)) if isinstance(value, tuple) else value
