"""The source of the state of a cluster: its API server, or a snapshot."""

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from tallygate.accounting.kubernetes_versions.version import KubernetesVersion
from tallygate.cli.connection import DEFAULT_CONNECTION, Connection
from tallygate.cli.sources.options import require_one_source
from tallygate.cli.sources.resource_lists import ListError, UnknownResourceError, list_creators, list_resource
from tallygate.cli.sources.snapshot_file import read_snapshot
from tallygate.cluster import kinds
from tallygate.cluster.cap_ledger_list import LEDGER_PAGE_SIZE, LEDGER_RECORD_CODEC, CapLedgerList, create_ledger_list
from tallygate.cluster.cluster_state import ClusterState
from tallygate.cluster.state_builder import StateBuilder
from tallygate.kube.api_errors import ApiError, ApiErrorReason
from tallygate.kube.client import ApiClient, ClientConfig, read_git_version
from tallygate.kube.resource_codec import Replaced, ResourceCodec

_REQUIRED: Final = frozenset({kinds.NAMESPACES, kinds.PODS})


class StateNeeds(NamedTuple):
    """The objects that a command lists, besides namespaces, pods, and the classes and claims of devices.

    These are the CapLedgers, the nodes, their pools, the slices of devices, what gives new pods defaults, or `columns`:
    all that scheduling depends on. With `rejected_pods` it reads which pods controllers could not create. Of objects in
    namespaces it reads those in `namespaces`; an empty name is all. With `kubernetes` the rules of this version apply.
    The `applied` objects are put on top of what is read (`tallygate.manifests.applied_objects`).
    """

    ledgers: bool = False
    nodes: bool = False
    node_pools: bool = False
    slices: bool = False
    defaults: bool = False
    columns: bool = False
    rejected_pods: bool = False
    namespaces: Sequence[str] = ("",)
    kubernetes: KubernetesVersion | None = None
    applied: Sequence[tuple[str, msgspec.Struct]] = ()


@dataclass(frozen=True, slots=True)
class ClusterSource:
    """The API server of a cluster, or a snapshot, to which the rules of its version apply, or those of `kubernetes`.

    Raises:
        UsageError: if the options name two sources.
    """

    connection: Connection = DEFAULT_CONNECTION
    snapshot: Path | None = None
    kubernetes: KubernetesVersion | None = None

    def __post_init__(self) -> None:
        """Check that the options name one source."""
        require_one_source(self.connection, self.snapshot)

    def read(self, needs: StateNeeds) -> ClusterState:
        """Return the cluster at present, or at the time of the snapshot.

        Raises:
            ClientConfigError: if the API server is not configured.
            ListError: if the pods or namespaces cannot be listed.
            SnapshotError: if the snapshot cannot be read.
        """
        if self.snapshot:
            return read_snapshot(self.snapshot, needs.applied, with_columns=needs.columns, kubernetes=self.kubernetes)
        return read_api_server(self.connection.load(), needs._replace(kubernetes=self.kubernetes))


def read_api_server(client_config: ClientConfig, needs: StateNeeds) -> ClusterState:
    """Return the state of a cluster at present.

    Ledgers are read first, so that the pods are not older than those that a ledger counted; claims after the pods, so
    that the pod of each is known; slices after the claims, which show the devices of these.

    Raises:
        ListError: if namespaces, pods, or the nodes of the columns cannot be listed.
    """
    client = ApiClient(client_config)
    try:
        return _Lister(client, needs).read()
    finally:
        client.close()


def list_cap_ledgers(client: ApiClient) -> CapLedgerList:
    """Return the CapLedgers of a cluster, or the reason why they cannot be read.

    Raises:
        ListError: if the list fails for another reason than a missing resource or permission.
    """
    try:
        return create_ledger_list(list_resource(client, LEDGER_RECORD_CODEC, LEDGER_PAGE_SIZE).items)
    except UnknownResourceError:
        return _create_unavailable(
            "the cluster has no CapLedgers: the gate keeps its ledgers in memory, or no gate runs"
        )
    except ListError as error:
        if error.cause.reason is not ApiErrorReason.FORBIDDEN:
            raise
        return _create_unavailable(f"CapLedgers may not be read: {error.cause}")


def _create_unavailable(reason: str) -> CapLedgerList:
    return CapLedgerList(missing_reason=reason, unavailable_reason=reason)


class _Lister:
    """The lists of one API server into one state."""

    def __init__(self, client: ApiClient, needs: StateNeeds) -> None:
        self._client, self._needs = client, needs
        self._builder = StateBuilder(with_columns=needs.columns, kubernetes=needs.kubernetes)

    def read(self) -> ClusterState:
        needs, builder = self._needs, self._builder
        if needs.ledgers:
            builder.set_ledgers(list_cap_ledgers(self._client))
        if (needs.columns or needs.defaults) and (git_version := read_git_version(self._client)) is not None:
            builder.set_version(git_version)
        self._list(kinds.NAMESPACES)
        if needs.columns:
            self._list_columns()
        for resource in self._list_other_resources():
            self._list(resource)
        if needs.rejected_pods:
            for kind, raw in list_creators(self._client, self._report_forbidden):
                builder.add(kind, raw)
        for kind, item in needs.applied:
            with suppress(ValueError):  # an object that no cluster could store, which its own check reports
                builder.apply(kind, item)
        state = builder.finish()
        state.read_at = time.time()
        if state.columns is not None:
            state.columns.now = datetime.now(UTC)
        return state

    def _report_forbidden(self, resource: str, error: ApiError) -> None:
        self._builder.add_problem(resource, kinds.KindProblem(kinds.UnknownReason.FORBIDDEN, str(error)))

    def _list_other_resources(self) -> Iterator[str]:
        """Yield the resources that are listed after the namespaces, and after the nodes of columns."""
        needs = self._needs
        if needs.columns:
            yield from (kinds.PODS, kinds.CLAIMS, kinds.TEMPLATES, kinds.SLICES, kinds.TAINT_RULES)
            return
        yield from (kinds.PODS, kinds.CLASSES, kinds.CLAIMS)
        if needs.slices:
            yield kinds.SLICES
        if needs.nodes:
            yield kinds.NODES
        if needs.node_pools:
            yield from (kinds.NODE_POOLS, kinds.NODE_CLAIMS)
        if needs.defaults:
            yield from (kinds.LIMIT_RANGES, kinds.PRIORITY_CLASSES, kinds.RUNTIME_CLASSES)

    def _list_columns(self) -> None:
        """List what scheduling depends on, besides pods and what devices need."""
        self._list(kinds.NODES)
        volumes = [self._list_column(*resource) for resource in kinds.VOLUME_RESOURCES]
        self._builder.settle_volumes(are_known=all(volumes))
        for resource in (
            kinds.PRIORITY_CLASSES,
            kinds.LIMIT_RANGES,
            kinds.RUNTIME_CLASSES,
            kinds.QUOTAS,
            kinds.CLASSES,
        ):
            self._list(resource)
        self._list_column(*kinds.BUDGET_RESOURCE)
        if self._list_column(*kinds.POD_GROUP_RESOURCE):
            self._builder.make_pod_groups_known()
        self._list(kinds.NODE_POOLS)
        self._list(kinds.NODE_CLAIMS)

    def _list(self, resource: str) -> None:
        """Add the objects of a resource in all requested namespaces, or the reason why they are not known."""
        kind = kinds.KINDS_BY_RESOURCE[resource]
        namespaces = self._needs.namespaces if kind.is_namespaced else ("",)
        for namespace in namespaces:
            listed = self._list_if_allowed(self._builder.create_codec(kind.kind, namespace))
            if listed is None:
                return
            self._builder.add_list(resource, listed)

    def _list_column(self, version: str, resource: str, kind: str) -> bool:
        """Add the objects of a resource that the columns alone have; return whether they may be listed."""
        codec = self._builder.create_column_codec(resource, kinds.create_list_path(version, resource), kind)
        listed = self._list_if_allowed(codec)
        return listed is not None or self._builder.state.problems[resource].reason is kinds.UnknownReason.UNSERVED

    def _list_if_allowed(self, codec: ResourceCodec[Any, Any]) -> Replaced[Any] | None:
        """Return a list; None, with the problem in the state, if it is not served or not allowed.

        Raises:
            ListError: if it fails for another reason, or no command can do without it.
        """
        try:
            return list_resource(self._client, codec)
        except UnknownResourceError:
            problem = kinds.KindProblem(kinds.UnknownReason.UNSERVED)
        except ListError as error:
            is_required = codec.name in _REQUIRED or (codec.name == kinds.NODES and self._needs.columns)
            if error.cause.reason is not ApiErrorReason.FORBIDDEN or is_required:
                raise
            problem = kinds.KindProblem(kinds.UnknownReason.FORBIDDEN, str(error.cause))
        self._builder.add_problem(codec.name, problem)
        return None
