"""Stores of ResourceQuotas, claim templates, and of what admission gives new pods: records by namespace and name.

- ResourceQuotas: spec and status.
- LimitRanges: the spec. PriorityClasses, which are in no namespace: their value, and whether they are the default.
  RuntimeClasses, likewise: overhead and scheduling.
- ResourceClaimTemplates: the claim that is made from the template, without the selectors of its devices.
- PodGroups of Kubernetes 1.37: owners, spec and status.
"""

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from threading import Condition
from typing import Generic, TypeVar

import msgspec

from tallygate.accounting.kubernetes_versions.version import DEFAULT_VERSION
from tallygate.accounting.pod_defaults import PodDefaults, create_pod_defaults
from tallygate.kube import resource_codec
from tallygate.objects.core import LimitRange, ResourceQuota
from tallygate.objects.devices import ResourceClaim, ResourceClaimTemplate, ResourceClaimTemplateSpec
from tallygate.objects.meta import ObjectMeta
from tallygate.objects.scheduling import PodGroup, PriorityClass, RuntimeClass
from tallygate.state.informers.claim_records import ClaimGroup, intern_template
from tallygate.state.informers.named_stores import ObjectRecord, create_codec, keep_metadata
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

    def list_namespaces(self) -> tuple[str, ...]:
        """Return the namespaces that have records."""
        with self._changed:
            return tuple(self._records_by_namespace)

    def list_records(self, namespace: str) -> tuple[R, ...]:
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


_QUOTA_ENCODER = msgspec.json.Encoder()
_QUOTA_DECODER = msgspec.json.Decoder(ResourceQuota)


class QuotaStore(NamespacedStore[ObjectRecord[bytes]]):
    """All quotas as of its revision."""

    def list_quotas(self, namespace: str) -> tuple[ResourceQuota, ...]:
        """Decode and return the quotas of a namespace: name, labels, spec and status."""
        return tuple(_QUOTA_DECODER.decode(record.content) for record in self.list_records(namespace))


QUOTA_CODEC = create_codec(
    "/api/v1/resourcequotas",
    ResourceQuota,
    "quota",
    lambda quota: _QUOTA_ENCODER.encode(keep_metadata(quota, "labels")),
    is_namespaced=True,
)


class PodDefaultsStore:
    """All LimitRanges, PriorityClasses and RuntimeClasses: the values that built-in admission fills into new pods.

    `version` is that of the API server, the default one while it is not known.
    """

    def __init__(self) -> None:
        self.version = DEFAULT_VERSION
        self.limit_ranges: NamespacedStore[ObjectRecord[LimitRange]] = NamespacedStore()
        self.priority_classes: NamespacedStore[ObjectRecord[PriorityClass]] = NamespacedStore()
        self.runtime_classes: NamespacedStore[ObjectRecord[RuntimeClass]] = NamespacedStore()

    def gives_devices(self) -> bool:
        """Return whether pods may get a resource with a domain that they do not write, from any of these objects."""
        limit_ranges = (
            limit_range
            for name in self.limit_ranges.list_namespaces()
            for limit_range in self.limit_ranges.list_records(name)
        )
        items = (
            item
            for record in limit_ranges
            for item in (record.content.spec.limits if record.content.spec else None) or ()
        )
        lists = [
            *(listed for item in items for listed in (item.max, item.min, item.default, item.default_request)),
            *(
                record.content.overhead.pod_fixed
                for record in self.runtime_classes.list_records("")
                if record.content.overhead is not None
            ),
        ]
        return any("/" in name for listed in lists for name in listed or ())

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
            [record.content for record in limit_ranges],
            {record.name: record.content for record in priority_classes},
            {record.name: record.content for record in runtime_classes},
            has_limit_ranges=has_limit_ranges,
            has_priority_classes=has_priority_classes,
            has_runtime_classes=has_runtime_classes,
            version=self.version,
        )


LIMIT_RANGE_CODEC = create_codec("/api/v1/limitranges", LimitRange, "limit range", keep_metadata, is_namespaced=True)
PRIORITY_CLASS_CODEC = create_codec(
    "/apis/scheduling.k8s.io/v1/priorityclasses", PriorityClass, "priority class", keep_metadata
)
RUNTIME_CLASS_CODEC = create_codec("/apis/node.k8s.io/v1/runtimeclasses", RuntimeClass, "runtime class", keep_metadata)


class ClaimTemplateStore(NamespacedStore[ObjectRecord[ChargeGroup]]):
    """All templates of claims as of its revision, from a reflector that decodes them with `codec`.

    All templates of equal claims have the same group.
    """

    def __init__(self) -> None:
        super().__init__()
        self._interner = ChargeGroupInterner(ClaimGroup)
        self.codec = create_codec(
            "/apis/resource.k8s.io/v1/resourceclaimtemplates",
            ResourceClaimTemplate,
            "template of claims",
            self._intern,
            is_namespaced=True,
            is_optional=True,
        )

    def _intern(self, template: ResourceClaimTemplate) -> ChargeGroup:
        spec = template.spec or ResourceClaimTemplateSpec()
        return intern_template(ResourceClaim(spec.metadata, spec.spec), self._interner)

    @contextmanager
    def apply_templates(self, templates: Iterable[ResourceClaimTemplate]) -> Generator[None]:
        """Have these templates, in place of those of their names, until the end; no event may come meanwhile."""
        changes: list[tuple[ObjectRecord[ChargeGroup], ObjectRecord[ChargeGroup] | None]] = []
        try:
            for template in templates:
                meta = template.metadata or ObjectMeta()
                record = ObjectRecord("", meta.namespace or "", meta.name or "", 0, self._intern(template))
                changes.append((record, self.find(record.namespace, record.name)))
                with self._changed:
                    self._put(record)
            yield
        finally:
            with self._changed:
                for record, before in reversed(changes):
                    self._remove(record)
                    if before is not None:
                        self._put(before)

    def find_claim(self, namespace: str, name: str, timeout: float = 0.0) -> ResourceClaim | None:
        """Return the labels and the spec of a claim from this template; None if it is unknown after `timeout` s."""
        record = self.find(namespace, name, timeout)
        return record.content.to_claim() if record is not None and isinstance(record.content, ClaimGroup) else None


PodGroupStore = NamespacedStore[ObjectRecord[PodGroup]]
"""All PodGroups as of its revision."""

POD_GROUP_CODEC = create_codec(
    "/apis/scheduling.k8s.io/v1beta1/podgroups",
    PodGroup,
    "pod group",
    lambda stored: keep_metadata(stored, "namespace", "uid", "owner_references"),
    is_namespaced=True,
    is_optional=True,
)
"""The version exists since 1.37 (k8s.io/api/scheduling/v1beta1), and is off by default."""
