"""The devices of a cluster for predictions: built when a pod needs them for the first time, then kept current.

The stores have all content. The cache adds decoded devices and columns, which take seconds to make in a large cluster,
so that a thread of its own makes them. Most gates never need them.
"""

from collections.abc import Callable, Collection
from itertools import islice
from threading import Lock, Thread
from typing import TypeVar

from tallygate.accounting.allocation.published_devices import SliceError
from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.device_index import DeviceIndex
from tallygate.accounting.quantity_parser import QuantityError
from tallygate.objects.devices import ResourceClaimTemplate, ResourceClaimTemplateSpec
from tallygate.objects.meta import ObjectMeta
from tallygate.state.informers.claim_records import ClaimRecord
from tallygate.state.informers.claim_store import ClaimName, ClaimStore
from tallygate.state.informers.device_store import DeviceStore
from tallygate.state.informers.named_stores import DeviceTaintRuleStore
from tallygate.state.informers.namespaced_stores import ClaimTemplateStore
from tallygate.state.informers.scheduler_cache import SchedulerCache

K = TypeVar("K")

_BATCH_SIZE = 50  # objects per acquisition of the lock: other threads wait for one batch only
_TIMEOUT_SECONDS = 60.0  # for the lock, which no thread has for as long


class DeviceCache:
    """The slices, taint rules and claims of the stores in a `DeviceIndex`, which callers read with the cluster."""

    def __init__(
        self,
        scheduler_cache: SchedulerCache,
        devices: DeviceStore,
        taint_rules: DeviceTaintRuleStore,
        claims: ClaimStore,
        templates: ClaimTemplateStore,
    ) -> None:
        self._scheduler_cache = scheduler_cache
        self._devices, self._taint_rules, self._claims, self._templates = devices, taint_rules, claims, templates
        self._lock = Lock()
        self._index: DeviceIndex | None = None
        self._is_built = False
        self._changed_slices: dict[str, None] = {}
        self._changed_rules: dict[str, None] = {}
        self._changed_claims: dict[ClaimName, None] = {}
        self._problems: dict[object, str] = {}
        devices.add_listener(self._mark_slices)
        taint_rules.add_listener(self._mark_rules)
        claims.add_claim_listener(self._mark_claims)

    def get_index(self) -> DeviceIndex | None:
        """Return the devices; None until they are built, and while an object about them cannot be read."""
        return self._index if self._is_built and not self._problems else None

    @property
    def is_built(self) -> bool:
        """Whether all devices that were known at the start are in the index."""
        return self._is_built

    @property
    def problem(self) -> str:
        """The reason why there is no index; empty with one."""
        if not self._is_built:
            return "the devices of the cluster are being read"
        return next(iter(self._problems.values()), "")

    def start_building(self) -> None:
        """Build the index in a thread, unless that was done."""
        if self._begin():
            Thread(target=self._apply_changes, name="build-devices", daemon=True).start()

    def build(self) -> None:
        """Build the index in this thread, unless that was done."""
        if self._begin():
            self._apply_changes()

    def _begin(self) -> bool:
        """Mark all objects as changed; return False if that was done before."""
        with self._lock:
            if self._index is not None:
                return False
            self._index = DeviceIndex(self._find_template)
        self._mark_rules([record.name for record in self._taint_rules.list_records()])
        self._mark_slices([record.name for record in self._devices.list_records()])
        self._mark_claims(None)
        return True

    def _find_template(self, namespace: str, name: str) -> ResourceClaimTemplate | None:
        claim = self._templates.find_claim(namespace, name)
        if claim is None:
            return None
        return ResourceClaimTemplate(
            ObjectMeta(name=name, namespace=namespace), ResourceClaimTemplateSpec(claim.metadata, claim.spec)
        )

    def _mark_slices(self, names: Collection[str]) -> None:
        self._mark(self._changed_slices, lambda _: names)

    def _mark_rules(self, names: Collection[str]) -> None:
        self._mark(self._changed_rules, lambda _: names)

    def _mark_claims(self, names: Collection[ClaimName] | None) -> None:
        # all of them: with the copies of a prediction that is in progress, which are no claims of the store
        self._mark(
            self._changed_claims,
            lambda index: [*index.claims.stored, *self._claims.list_names()] if names is None else names,
        )

    def _mark(self, changed: dict[K, None], list_keys: Callable[[DeviceIndex], Collection[K]]) -> None:
        with self._lock:
            if self._index is None:
                return
            changed |= dict.fromkeys(list_keys(self._index))
            is_built = self._is_built
        if is_built:
            self._apply_changes()

    def _apply_changes(self) -> None:
        while True:
            with self._scheduler_cache.acquire(_TIMEOUT_SECONDS) as cluster, self._lock:
                if cluster is None or self._index is None:
                    continue
                for name in _pop(self._changed_rules):
                    record = self._taint_rules.find(name)
                    rule = None if record is None else record.content
                    self._changed_slices |= dict.fromkeys(self._index.set_taint_rule(name, rule))
                slices, claims = _pop(self._changed_slices), _pop(self._changed_claims)
                if not slices and not claims:
                    self._is_built = True
                    return
                self._apply_batch(cluster, self._index, slices, claims)

    def _apply_batch(
        self, cluster: Cluster, index: DeviceIndex, slices: Collection[str], claims: Collection[ClaimName]
    ) -> None:
        columns = index.get_columns(cluster.version, cluster.device_classes.by_name)
        for name in slices:
            self._problems.pop(name, None)
            stored = self._devices.find(name)
            try:
                index.replace_slice(name, None if stored is None else stored.to_slice())
            except SliceError as error:
                self._problems[name] = str(error)
        for claim in claims:
            self._problems.pop(claim, None)
            record = self._claims.find_record(*claim)
            if record is not None and record.groups:
                cluster.pod_groups.has_claim_gate = True
            try:
                _replace_claim(index, claim, record)
            except QuantityError as error:
                self._problems[claim] = f"claim {'/'.join(claim)}: {error}"
        index.work.begin_attempt()
        columns.refresh()


def _replace_claim(index: DeviceIndex, key: ClaimName, record: ClaimRecord | None) -> None:
    """Put a claim in; one whose devices are the same, as in a second list, is not counted again."""
    before = index.claims.stored.get(key)
    if record is not None and isinstance(before, ClaimRecord) and before.devices == record.devices:
        index.claims.stored[key] = record
    else:
        index.replace_claim(key, record)


def _pop(changes: dict[K, None]) -> list[K]:
    """Remove and return some of the changes, the oldest first."""
    keys = list(islice(changes, _BATCH_SIZE))
    for key in keys:
        del changes[key]
    return keys
