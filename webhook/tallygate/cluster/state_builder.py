"""The builder of a state: it takes the objects of a list or of a snapshot, and puts them into the stores at the end.

Only a state with columns needs numpy: other states are built without it.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from tallygate.accounting.charge import has_ended
from tallygate.accounting.kubernetes_versions.version import KubernetesVersion
from tallygate.cluster import kinds
from tallygate.cluster.cap_ledger_list import CapLedgerList, CapLedgerRecord, create_ledger_list, create_ledger_record
from tallygate.cluster.cluster_state import ClusterState
from tallygate.cluster.rejected_pods import CREATOR_KINDS
from tallygate.kube.resource_codec import Replaced, ResourceCodec, ResourceRecord, parse_revision
from tallygate.objects.meta import ObjectMeta
from tallygate.objects.scheduling import SchedulingPod
from tallygate.state.informers.claim_records import ClaimRecord
from tallygate.state.informers.named_stores import NamespaceRecord
from tallygate.state.kubernetes import cap_ledger
from tallygate.state.kubernetes.limit_record_store import decode_record

VERSION_KIND: Final = "ClusterVersion"
"""The kind of an item with the version of a cluster under `gitVersion`; only tallygate writes it."""
VOLUMES_LISTED_KIND: Final = "PersistentVolumeClaimList"
"""The mark of a snapshot that has all volume objects of its cluster, even if the cluster has none."""
LIMIT_RECORDS_LISTED_KIND: Final = "LeaseList"
POD_GROUP_LIST_KIND: Final = "PodGroupList"
"""The mark of a snapshot that has all PodGroups of its cluster, even if the cluster has none."""
_LIST: Final = "List"
_DEFAULTS: Final = frozenset({"LimitRange", "PriorityClass", "RuntimeClass"})
_LEASE: Final = "Lease"


class _ReportedVersion(msgspec.Struct, rename="camel"):
    """The version that the API server of a snapshot reported."""

    git_version: str


class _ColumnRecord(NamedTuple):
    """An object that is in the columns alone."""

    uid: str
    namespace: str
    name: str
    revision: int


class StateBuilder:
    """The builder of one state, `with_columns` where pods are to be placed on its nodes; it leaves out `skipped` kinds.

    Objects of a file may be written by hand: they get the identity that an API server would set. With `kubernetes` the
    rules of this version apply, whatever version the cluster has.
    """

    def __init__(
        self,
        *,
        with_columns: bool = False,
        skipped: Collection[str] = (),
        kubernetes: KubernetesVersion | None = None,
    ) -> None:
        self._skipped = frozenset(skipped)
        self.state = ClusterState()
        self._records: dict[str, list[Any]] = {}
        self._known: set[str] = set()
        self._ledgers: list[CapLedgerRecord] = []
        self._limit_records: dict[str, Mapping[str, str]] | None = None  # by the UID of the namespace
        self._slice_problems: list[str] = []
        self._revision = 0
        self._columns = _Columns(self.state) if with_columns else None
        self._kubernetes = kubernetes
        if kubernetes is not None:
            self.state.pod_defaults.version = kubernetes
            if self._columns is not None:
                self._columns.cluster.choose_version(kubernetes)

    def add(self, kind: str, item: msgspec.Raw) -> bool:
        """Add an object of a snapshot, or the mark that all objects of its kind are there; return whether it is used.

        Raises:
            QuantityError: if a quantity of the object is invalid, and the state has columns.
            ValueError: if the object is not as a cluster stores it.
        """
        if kind in self._skipped:
            return False
        if kind == cap_ledger.KIND:
            self._ledgers.append(create_ledger_record(item))
        elif kind in CREATOR_KINDS and self._columns is not None:
            self.state.rejected_pods.add(kind, item)
        elif kind == LIMIT_RECORDS_LISTED_KIND:
            self._limit_records = {}
        elif kind == _LEASE and self._limit_records is not None:
            if record := decode_record(item):
                self._limit_records[record.namespace_uid] = record.texts
        elif kind in _COLUMN_MARKS:
            if self._columns is not None:
                _COLUMN_MARKS[kind](self._columns)
        elif (listed := kinds.KINDS.get(kind.removesuffix(_LIST))) is not None and kind.endswith(_LIST):
            self.make_known(listed.resource)
        else:
            return self._add_object(kind, item)
        return True

    def _add_object(self, kind: str, item: msgspec.Raw) -> bool:
        if kind == VERSION_KIND:
            if git_version := msgspec.json.decode(item, type=_ReportedVersion).git_version.strip():
                self.set_version(git_version)
            return True
        object_type = self._find_type(kind)
        if object_type is None:
            return False
        decoded: Any = msgspec.json.decode(item, type=object_type)
        if self._columns is not None and isinstance(decoded, SchedulingPod):
            decoded = self._columns.complete_pod(decoded)
        record = self._create_record(kind, _complete_identity(kind, decoded))
        if kind in kinds.KINDS:
            resource = kinds.KINDS[kind].resource
            self._records.setdefault(resource, []).append(record)
            self._known.add(resource)
            self._revision = max(self._revision, record.revision)
        return True

    def apply(self, kind: str, item: msgspec.Struct) -> None:
        """Add an object that is applied to the cluster after all others were added: it replaces one of its name.

        A namespace keeps its annotations that set limits, where the applied one does not have them.

        Raises:
            ValueError: if a cluster could not store the object.
        """
        if kind not in kinds.KINDS:
            if self._columns is not None:
                self._columns.put(kind, item)
            return
        # one object of a kind that is not known would make the columns take it for all of them
        is_partial = kind in _DEFAULTS and kinds.KINDS[kind].resource not in self._known
        record = self._create_record(kind, _complete_identity(kind, item), with_columns=not is_partial)
        records = self._records.setdefault(kinds.KINDS[kind].resource, [])
        if isinstance(record, NamespaceRecord):
            for stored in records:
                if stored.name == record.name:
                    texts = {**stored.limit_texts, **record.limit_texts}
                    record = msgspec.structs.replace(record, limit_texts=texts)
        records.append(record)

    def create_codec(self, kind: str, namespace: str = "") -> ResourceCodec[Any, Any]:
        """Return the codec of a kind for lists of the API server; `add_list` takes its records."""
        known, object_type = kinds.KINDS[kind], self._find_type(kind)
        return ResourceCodec(
            known.resource,
            known.create_path(namespace),
            object_type or known.type,
            lambda item: self._create_record(kind, item),
        )

    def create_column_codec(self, resource: str, path: str, kind: str) -> ResourceCodec[Any, Any]:
        """Return the codec of a kind that is in the columns alone."""
        object_type = self._find_type(kind)
        assert object_type is not None  # noqa: S101  # the caller names kinds that scheduling uses
        return ResourceCodec(resource, path, object_type, lambda item: self._create_record(kind, item))

    def add_list(self, resource: str, listed: Replaced[Any]) -> None:
        """Add all objects of a resource, or of one namespace of it, which are known then."""
        self._records.setdefault(resource, []).extend(listed.items)
        self.make_known(resource)
        self._revision = max(self._revision, listed.revision)

    def add_problem(self, resource: str, problem: kinds.KindProblem) -> None:
        """Record why the objects of a resource are not known."""
        self.state.problems[resource] = problem

    def make_known(self, resource: str) -> None:
        """Record that all objects of a resource are there, even if there are none."""
        self._known.add(resource)
        if self._columns is not None:
            self._columns.make_known(resource)

    def settle_volumes(self, *, are_known: bool) -> None:
        """Record that all objects about volumes are there, or that some are not: a part would say what is not so."""
        if self._columns is not None and are_known:
            self._columns.make_volumes_known()
        elif self._columns is not None:
            self._columns.cluster.storage = None

    def make_pod_groups_known(self) -> None:
        """Record that all PodGroups are there, even if there are none."""
        if self._columns is not None:
            self._columns.make_pod_groups_known()

    def set_version(self, git_version: str) -> None:
        """Set the version that the cluster reports: it decides how pods are counted.

        Raises:
            ValueError: if the state has columns, and a pod was added before.
        """
        if self._columns is not None and self.has_any(kinds.PODS):
            raise ValueError("it decides how pods are counted, and has to come before them: move it to the beginning")
        self.state.set_version(git_version)
        if self._kubernetes is not None:
            self.state.pod_defaults.version = self._kubernetes
        if self._columns is not None:
            self._columns.cluster.set_version(git_version)

    def set_ledgers(self, ledgers: CapLedgerList) -> None:
        """Set the CapLedgers of the cluster."""
        self.state.ledgers = ledgers

    def has_any(self, resource: str) -> bool:
        """Return whether there is an object of a resource."""
        return bool(self._records.get(resource))

    def finish_without_source(self) -> ClusterState:
        """Return the state of a cluster that is not read: with what was applied alone."""
        for resource in kinds.KINDS_BY_RESOURCE:
            self.add_problem(resource, kinds.KindProblem(kinds.UnknownReason.UNREAD))
        return self.finish()

    def finish_snapshot(self, list_revision: str) -> ClusterState:
        """Return the state of a snapshot, whose list has this revision; what it does not have is not known.

        Raises:
            ValueError: if the revision is not one of Kubernetes.
        """
        if list_revision not in {"", "0"}:
            self._revision = parse_revision(list_revision)
        for resource in kinds.KINDS_BY_RESOURCE:
            if resource not in self._known:
                self.add_problem(resource, kinds.KindProblem(kinds.UnknownReason.ABSENT))
        ledgers = create_ledger_list(self._ledgers)
        absent = CapLedgerList(missing_reason="the snapshot has no CapLedgers")
        self.state.ledgers = absent if ledgers.missing_reason else ledgers
        self.state.limit_records = self._limit_records
        return self.finish()

    def finish(self) -> ClusterState:
        """Return the state with all that was added."""
        state, revision = self.state, max(self._revision, 1)
        for resource in kinds.KINDS_BY_RESOURCE:
            store, records = state.get_store(resource), self._records.get(resource, [])
            if not records and resource in state.problems and kinds.is_known(state.problems, resource):
                store.apply(Replaced((), 0))  # the API server has no such objects
            elif records or resource in self._known or resource not in {kinds.NODES, kinds.SLICES}:
                store.apply(Replaced(records, revision))
        if self._columns is not None:
            self._columns.settle()
        return state

    def _find_type(self, kind: str) -> type[msgspec.Struct] | None:
        if self._columns is not None and kind in self._columns.types:
            return self._columns.types[kind]
        return kinds.KINDS[kind].type if kind in kinds.KINDS else None

    def _create_record(self, kind: str, item: Any, *, with_columns: bool = True) -> ResourceRecord:
        if self._columns is not None and with_columns:
            self._columns.put(kind, item)
        meta: ObjectMeta = getattr(item, "metadata", None) or ObjectMeta()
        if kind in kinds.KINDS:
            record: ResourceRecord = self.state.get_codec(kinds.KINDS[kind].resource).create_record(item)
            if isinstance(record, ClaimRecord) and record.owner_uid and not record.pod_uid:
                owned = self.state.claim_owners.setdefault(record.owner_uid, [])
                owned.append((record.namespace, record.name))
            return record
        revision = parse_revision(meta.resource_version or "1")
        return _ColumnRecord(meta.uid or "", meta.namespace or "", meta.name or "", revision)


class _Columns:
    """The columns of a state, with the errors of slices that cannot be read."""

    def __init__(self, state: ClusterState) -> None:
        from tallygate.accounting.allocation.published_devices import SliceError  # noqa: PLC0415  see the module
        from tallygate.accounting.cluster import ingest  # noqa: PLC0415  likewise
        from tallygate.accounting.cluster.cluster import Cluster  # noqa: PLC0415  likewise
        from tallygate.accounting.cluster.pod_info import create_pod_info, merge_label_keys  # noqa: PLC0415  likewise
        from tallygate.accounting.cluster.storage_index import StorageIndex  # noqa: PLC0415  likewise

        self.cluster = state.columns = Cluster()
        self.types = ingest.COLUMN_TYPES
        self._state = state
        self._problems: list[str] = []
        self._slice_error = SliceError
        self._put, self._settle = ingest.put_object, ingest.settle_devices
        self._create_pod_info, self._merge_label_keys = create_pod_info, merge_label_keys
        self._create_storage = StorageIndex

    def put(self, kind: str, item: Any) -> None:
        """Put an object in, a pod without a node among the pending ones."""
        if kind == "Pod":
            self._put_pod(item)
            return
        try:
            self._put(self.cluster, kind, item)
        except self._slice_error as error:
            self._problems.append(str(error))

    def _put_pod(self, pod: SchedulingPod) -> None:
        meta = pod.metadata or ObjectMeta()
        pod_info = self._create_pod_info(pod, self.cluster.groups)
        if pod_info is not None:
            self.cluster.put_pod(pod_info)
        self.cluster.pod_groups.put_pod(pod)
        if not has_ended(pod) and not (pod.spec and pod.spec.node_name) and meta.deletion_timestamp is None:
            self._state.pending_pods[meta.namespace or "", meta.name or ""] = pod

    def complete_pod(self, pod: SchedulingPod) -> SchedulingPod:
        """Return a pod that was written by hand as the API server would store it."""
        return self._merge_label_keys(pod)

    def make_known(self, resource: str) -> None:
        """Mark a kind as known, if it is one that a cluster may not have."""
        if resource == kinds.LIMIT_RANGES:
            self._put(self.cluster, "LimitRangeList", None)
        elif resource == kinds.RUNTIME_CLASSES:
            self._put(self.cluster, "RuntimeClassList", None)

    def make_volumes_known(self) -> None:
        """Mark the objects about volumes as known."""
        self.cluster.storage = self.cluster.storage or self._create_storage()

    def make_pod_groups_known(self) -> None:
        """Mark the PodGroups as known."""
        self.cluster.pod_groups.are_known = True

    def settle(self) -> None:
        """Make the devices known, unless a kind about them is not known, or a slice cannot be read."""
        problems = filter(None, (self._state.describe_device_problems(), *self._problems))
        self._settle(self.cluster, tuple(problems))


_COLUMN_MARKS: Final[Mapping[str, Callable[[_Columns], None]]] = {
    VOLUMES_LISTED_KIND: _Columns.make_volumes_known,
    POD_GROUP_LIST_KIND: _Columns.make_pod_groups_known,
}
"""The marks of a snapshot about kinds that the columns alone have."""


def _complete_identity(kind: str, item: Any) -> Any:
    """Return an object with a UID, a revision and the namespace of a pod, if it has none of its own."""
    meta: ObjectMeta | None = getattr(item, "metadata", None)
    if kind not in kinds.KINDS or meta is None or not meta.name:
        return item
    namespace = meta.namespace or ("default" if kinds.KINDS[kind].is_namespaced else None)
    if meta.uid and meta.resource_version and namespace == meta.namespace:
        return item
    identity = msgspec.structs.replace(
        meta,
        namespace=namespace,
        uid=meta.uid or "/".join(filter(None, (namespace, meta.name))),
        resource_version=meta.resource_version or "1",
    )
    return msgspec.structs.replace(item, metadata=identity)
