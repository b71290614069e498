"""The lists of an audit: the audited kinds in their order, the pages of their lists, and a copy of the nodes.

One page is in memory at a time. Unlike the list before a watch, the pages of a list need not be of one revision: the
next audit sees an object that was created meanwhile with a name before the next page.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

import msgspec

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.ingest import put_object
from tallygate.accounting.quantity_parser import QuantityError
from tallygate.admission.kinds import BUILT_IN_TARGETS, REVIEW_TARGETS, GroupKind, ReviewTargets
from tallygate.admission.workload_resources import WorkloadResource, find_resource
from tallygate.cluster.cluster_state import ClusterState
from tallygate.cluster.kinds import CLASSES, KINDS, UnknownReason
from tallygate.errors import TallygateError
from tallygate.kube.api_errors import ApiError, ApiErrorReason
from tallygate.kube.client import ApiClient
from tallygate.kube.discovery import Discovery
from tallygate.kube.pagination import WaitFunction, list_raw_pages
from tallygate.review.cluster_snapshot import FixedSnapshot

POD: Final = ("", "Pod")
NODE: Final = ("", "Node")
_TOP_LEVEL_CONTROLLERS = (
    ("ray.io", "RayService"),
    ("ray.io", "RayJob"),
    ("serving.kserve.io", "InferenceService"),
    ("trainer.kubeflow.org", "TrainJob"),
    ("argoproj.io", "CronWorkflow"),
)
_CONTROLLED_KINDS = (("apps", "Deployment"), ("batch", "CronJob"), ("apps", "ReplicaSet"), ("batch", "Job"))


def list_kinds_in_order(targets: ReviewTargets) -> tuple[GroupKind, ...]:
    """Return the evaluated kinds except pods, which come last: an owner comes before the objects that it owns."""
    others = [key for key in sorted(REVIEW_TARGETS) if key not in BUILT_IN_TARGETS]
    return (
        *sorted(key for key in targets if key not in REVIEW_TARGETS),
        *_TOP_LEVEL_CONTROLLERS,
        *(key for key in others if key not in _TOP_LEVEL_CONTROLLERS),
        *sorted(key for key in BUILT_IN_TARGETS if key not in {*_CONTROLLED_KINDS, POD}),
        *_CONTROLLED_KINDS,
    )


def index_groups(targets: ReviewTargets) -> dict[str, str]:
    """Return the API group of each kind; of groups with a kind of the same name, that of Kubernetes itself."""
    return {kind: group for known_targets in (targets, BUILT_IN_TARGETS) for group, kind in known_targets}


def format_api_version(group: str, version: str = "v1") -> str:
    """Return the `apiVersion` of an object of an API group."""
    return f"{group}/{version}" if group else version


def create_list_path(
    key: GroupKind, namespace: str = "", version: str = "v1", targets: ReviewTargets = BUILT_IN_TARGETS
) -> str:
    """Return the path of the list of a kind in a version, of all namespaces or of one."""
    group, _ = key
    namespace_path = f"/namespaces/{namespace}" if namespace else ""
    return f"{f'/apis/{group}' if group else '/api'}/{version}{namespace_path}/{targets[key].plural}"


@dataclass(slots=True)
class ServedKinds:
    """The kinds of other projects that an API server serves: those that are read, and a remark on each other one."""

    resources: dict[GroupKind, WorkloadResource] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)


class AuditError(TallygateError):
    """A failure of the audit; the text names the object, the reason and the remedy."""


class ListForbiddenError(AuditError):
    """A failure of the audit because the API server forbids a list."""


class PageReader:
    """A reader of lists, `size` objects at a time; `wait` waits between retries of transient failures."""

    def __init__(self, client: ApiClient, size: int, wait: WaitFunction) -> None:
        self._client = client
        self._size = size
        self._wait = wait

    def list_pages(self, path: str) -> Iterator[list[msgspec.Raw]]:
        """Yield the pages of a list, no page if the API server does not serve the resource.

        Raises:
            ListForbiddenError: if the API server forbids the list.
            AuditError: if the list fails in another way.
        """
        try:
            yield from list_raw_pages(self._client.get, path, self._size, self._wait)
        except ApiError as failure:
            message = f"{path} cannot be listed at {self._client.server}: {failure}"
            if failure.reason is ApiErrorReason.FORBIDDEN:
                raise ListForbiddenError(f"{message}; the audit must be allowed to list it") from failure
            raise AuditError(message) from failure

    def find_served_kinds(self, targets: ReviewTargets) -> ServedKinds:
        """Return which kinds of other projects among the targets the API server serves.

        Raises:
            AuditError: if the API server does not report what it serves.
        """
        try:
            served = Discovery(self._client).read()
        except ApiError as failure:
            raise AuditError(f"{self._client.server} does not report the kinds that it serves: {failure}") from failure
        kinds = ServedKinds()
        for kind in (target.definition for target in targets.values() if target.definition is not None):
            resource = find_resource(kind, served)
            if resource is not None:
                kinds.resources[kind.group, kind.kind] = resource
            elif versions := [
                served_kind[1]
                for served_kind in served
                if (served_kind[0], served_kind[2]) == (kind.group, kind.resource)
            ]:
                kinds.unread.append(
                    f"{kind.kind} of {kind.group} is served in {', '.join(versions)}, and read in "
                    f"{', '.join(kind.versions)} only, so it was not evaluated"
                )
        return kinds


def copy_nodes(
    state: ClusterState, throttle: Callable[[int], object] = lambda _: None, *, has_pools: bool = True
) -> FixedSnapshot | None:
    """Return the nodes of a state without their pods, with device classes and pools of Karpenter; None if not known.

    They are a copy, so that the audit does not block the readers of the watched nodes; `throttle` is called after each
    node. If device classes may not be listed, fewer problems of resources that no node advertises are reported. It
    `has_pools` if the pools are known, or may not be read: then the nodes alone show which pools there are.

    Raises:
        AuditError: if a quantity of a node is invalid.
    """
    if state.nodes.revision is None:
        return None
    cluster = Cluster()
    try:
        for record in state.nodes.list_records():
            if (node := state.nodes.find_node(record.name)) is not None:
                put_object(cluster, "Node", node)
            throttle(1)
    except QuantityError as error:
        raise AuditError(f"a Node is not as an API server would have stored it: {error}") from error
    for kind in ("DeviceClass", "NodePool", "NodeClaim"):
        for stored in state.get_store(KINDS[kind].resource).list_records():
            put_object(cluster, kind, stored.content)
    problem = state.problems.get(CLASSES)
    has_devices = problem is None or problem.reason is not UnknownReason.FORBIDDEN
    return FixedSnapshot(cluster, has_pods=False, has_devices=has_devices, has_pools=has_pools)
