"""Stores of ResourceQuotas, claim templates, and of what admission gives new pods: records by namespace and name.

- ResourceQuotas: spec and status.
- LimitRanges: the spec. PriorityClasses, which are in no namespace: their value, and whether they are the default.
  RuntimeClasses, likewise: overhead and scheduling.
- ResourceClaimTemplates: the claim that is made from the template, without the selectors of its devices.
"""

from threading import Condition
from typing import Generic, TypeVar

import msgspec

from tallygate.accounting.pod_defaults import PodDefaults, create_pod_defaults
from tallygate.kube import resource_codec
from tallygate.objects.core import LimitRange, ResourceQuota
from tallygate.objects.devices import ResourceClaim, ResourceClaimTemplate, ResourceClaimTemplateSpec
from tallygate.objects.meta import ObjectMeta
from tallygate.objects.scheduling import PriorityClass, RuntimeClass
from tallygate.state.informers.claim_records import ClaimGroup, intern_template
from tallygate.state.informers.pod_records import ChargeGroup, ChargeGroupInterner

R = TypeVar("R", bound=resource_codec.ResourceRecord)


class NamespacedStore(Generic[R]):
    """Records by namespace and name, updated by the events of a reflector. Any thread may read them."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._records_by_namespace: dict[str, dict[str, R]] = {}
        self._revision: int | None = None

    @property
    def revision(self) -> int | None:
        """Revision up to which the store is complete; None before the first list."""
        return self._revision

    def __len__(self) -> int:
        with self._changed:
            return sum(map(len, self._records_by_namespace.values()))

    def find(self, namespace: str, name: str, timeout: float = 0.0) -> R | None:
        """Return the record of this name; None if it does not arrive within `timeout` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: self._records_by_namespace.get(namespace, {}).get(name), timeout)

    def list_records(self, namespace: str) -> tuple[R, ...]:
        """Return the records of a namespace."""
        with self._changed:
            return tuple(self._records_by_namespace.get(namespace, {}).values())

    def apply(self, event: resource_codec.WatchEvent[R]) -> None:
        """Apply an event; ignore an event that is not newer than `revision`."""
        with self._changed:
            if isinstance(event, resource_codec.Replaced):
                self._records_by_namespace.clear()
                for record in event.items:
                    self._put(record)
            elif self._revision is None or event.revision <= self._revision:
                return
            elif isinstance(event, resource_codec.Changed):
                self._put(event.item)
            elif isinstance(event, resource_codec.Deleted):
                self._remove(event.item)
            self._revision = event.revision
            self._changed.notify_all()

    def _put(self, record: R) -> None:
        self._records_by_namespace.setdefault(record.namespace, {})[record.name] = record

    def _remove(self, record: R) -> None:
        records = self._records_by_namespace.get(record.namespace, {})
        records.pop(record.name, None)
        if not records:
            self._records_by_namespace.pop(record.namespace, None)


class QuotaRecord(msgspec.Struct, frozen=True):
    """One quota; `to_quota` decodes `content`."""

    uid: str
    namespace: str
    name: str
    revision: int
    content: bytes

    def to_quota(self) -> ResourceQuota:
        """Decode the stored fields of the quota: name, spec and status."""
        return _QUOTA_DECODER.decode(self.content)


class QuotaStore(NamespacedStore[QuotaRecord]):
    """All quotas as of its revision."""

    def list_quotas(self, namespace: str) -> tuple[ResourceQuota, ...]:
        """Return the quotas of a namespace."""
        return tuple(record.to_quota() for record in self.list_records(namespace))


def create_quota_record(quota: ResourceQuota) -> QuotaRecord:
    """Create the record of a stored quota.

    Raises:
        ValueError: if the quota lacks a field that every stored quota has.
    """
    meta = quota.metadata
    if meta is None or not meta.uid or not meta.namespace or not meta.name:
        raise ValueError("a quota without uid, namespace or name")
    stored_quota = ResourceQuota(ObjectMeta(name=meta.name), quota.spec, quota.status)
    revision = resource_codec.parse_revision(meta.resource_version or "")
    return QuotaRecord(meta.uid, meta.namespace, meta.name, revision, _QUOTA_ENCODER.encode(stored_quota))


_QUOTA_ENCODER = msgspec.json.Encoder()
_QUOTA_DECODER = msgspec.json.Decoder(ResourceQuota)

QUOTA_CODEC = resource_codec.ResourceCodec(
    "resourcequotas", "/api/v1/resourcequotas", ResourceQuota, create_quota_record
)


class LimitRangeRecord(msgspec.Struct, frozen=True):
    """One LimitRange with its name and specification."""

    uid: str
    namespace: str
    name: str
    revision: int
    limit_range: LimitRange


class PriorityClassRecord(msgspec.Struct, frozen=True):
    """One PriorityClass, which is in no namespace."""

    uid: str
    name: str
    revision: int
    priority_class: PriorityClass
    namespace: str = ""


class RuntimeClassRecord(msgspec.Struct, frozen=True):
    """One RuntimeClass, which is in no namespace."""

    uid: str
    name: str
    revision: int
    runtime_class: RuntimeClass
    namespace: str = ""


class PodDefaultsStore:
    """All LimitRanges, PriorityClasses and RuntimeClasses: the values that built-in admission fills into new pods."""

    def __init__(self) -> None:
        self.limit_ranges: NamespacedStore[LimitRangeRecord] = NamespacedStore()
        self.priority_classes: NamespacedStore[PriorityClassRecord] = NamespacedStore()
        self.runtime_classes: NamespacedStore[RuntimeClassRecord] = NamespacedStore()

    def find(
        self,
        namespace: str,
        *,
        has_limit_ranges: bool = True,
        has_priority_classes: bool = True,
        has_runtime_classes: bool = True,
        keeps_partial: bool = False,
    ) -> PodDefaults:
        """Return the values for the pods of a namespace, and which kinds are complete.

        Objects of the others are left out, as those of a stale watch, unless it `keeps_partial` kinds.
        """
        limit_ranges = self.limit_ranges.list_records(namespace) if has_limit_ranges or keeps_partial else ()
        priority_classes = self.priority_classes.list_records("") if has_priority_classes or keeps_partial else ()
        runtime_classes = self.runtime_classes.list_records("") if has_runtime_classes or keeps_partial else ()
        return create_pod_defaults(
            [record.limit_range for record in limit_ranges],
            {device_class.name: device_class.priority_class for device_class in priority_classes},
            {device_class.name: device_class.runtime_class for device_class in runtime_classes},
            has_limit_ranges=has_limit_ranges,
            has_priority_classes=has_priority_classes,
            has_runtime_classes=has_runtime_classes,
        )


def create_limit_range_record(limit_range: LimitRange) -> LimitRangeRecord:
    """Create the record of a stored LimitRange.

    Raises:
        ValueError: if it lacks a field that every stored one has.
    """
    meta = limit_range.metadata
    if meta is None or not meta.uid or not meta.namespace or not meta.name:
        raise ValueError("a limit range without uid, namespace or name")
    stored = LimitRange(ObjectMeta(name=meta.name), limit_range.spec)
    return LimitRangeRecord(
        meta.uid, meta.namespace, meta.name, resource_codec.parse_revision(meta.resource_version or ""), stored
    )


def create_priority_class_record(priority_class: PriorityClass) -> PriorityClassRecord:
    """Create the record of a stored PriorityClass.

    Raises:
        ValueError: if it lacks a field that every stored one has.
    """
    meta = priority_class.metadata
    if meta is None or not meta.uid or not meta.name:
        raise ValueError("a priority class without uid or name")
    stored = msgspec.structs.replace(priority_class, metadata=ObjectMeta(name=meta.name))
    return PriorityClassRecord(meta.uid, meta.name, resource_codec.parse_revision(meta.resource_version or ""), stored)


def create_runtime_class_record(runtime_class: RuntimeClass) -> RuntimeClassRecord:
    """Create the record of a stored RuntimeClass.

    Raises:
        ValueError: if it lacks a field that every stored one has.
    """
    meta = runtime_class.metadata
    if meta is None or not meta.uid or not meta.name:
        raise ValueError("a runtime class without uid or name")
    stored = msgspec.structs.replace(runtime_class, metadata=ObjectMeta(name=meta.name))
    return RuntimeClassRecord(meta.uid, meta.name, resource_codec.parse_revision(meta.resource_version or ""), stored)


LIMIT_RANGE_CODEC = resource_codec.ResourceCodec(
    "limitranges", "/api/v1/limitranges", LimitRange, create_limit_range_record
)
PRIORITY_CLASS_CODEC = resource_codec.ResourceCodec(
    "priorityclasses",
    "/apis/scheduling.k8s.io/v1/priorityclasses",
    PriorityClass,
    create_priority_class_record,
)
RUNTIME_CLASS_CODEC = resource_codec.ResourceCodec(
    "runtimeclasses", "/apis/node.k8s.io/v1/runtimeclasses", RuntimeClass, create_runtime_class_record
)


class ClaimTemplateRecord(msgspec.Struct, frozen=True):
    """One template of claims: all templates of equal claims have the same `group`."""

    uid: str
    namespace: str
    name: str
    revision: int
    group: ChargeGroup


class ClaimTemplateStore(NamespacedStore[ClaimTemplateRecord]):
    """All templates of claims as of its revision, from a reflector that decodes them with `codec`."""

    def __init__(self) -> None:
        super().__init__()
        self._interner = ChargeGroupInterner(ClaimGroup)
        self.codec = resource_codec.ResourceCodec(
            "resourceclaimtemplates",
            "/apis/resource.k8s.io/v1/resourceclaimtemplates",
            ResourceClaimTemplate,
            self.create_record,
            is_optional=True,
        )

    def create_record(self, template: ResourceClaimTemplate) -> ClaimTemplateRecord:
        """Create the record of a stored template.

        Raises:
            ValueError: if the template lacks a field that every stored template has.
        """
        return _create_claim_template_record(template, self._interner)

    def find_claim(self, namespace: str, name: str, timeout: float = 0.0) -> ResourceClaim | None:
        """Return the labels and the spec of a claim from this template; None if it is unknown after `timeout` s."""
        record = self.find(namespace, name, timeout)
        return record.group.to_claim() if record is not None and isinstance(record.group, ClaimGroup) else None


def _create_claim_template_record(
    template: ResourceClaimTemplate, interner: ChargeGroupInterner
) -> ClaimTemplateRecord:
    """Create the record of a stored template.

    Raises:
        ValueError: if the template lacks a field that every stored template has.
    """
    meta, spec = template.metadata, template.spec or ResourceClaimTemplateSpec()
    if meta is None or not meta.uid or not meta.namespace or not meta.name:
        raise ValueError("a template of claims without uid, namespace or name")
    group = intern_template(ResourceClaim(spec.metadata, spec.spec), interner)
    return ClaimTemplateRecord(
        meta.uid, meta.namespace, meta.name, resource_codec.parse_revision(meta.resource_version or ""), group
    )
