"""The facts about objects that may be many: namespaces, quotas, classes of devices, limits of caps, opaque names.

A command lists the objects; a server that watches them has them already.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple, Self

import msgspec
from msgspec import structs

from tallygate.accounting.names import OPAQUE_PREFIX
from tallygate.admission.cap_index import CapIndex, get_cap_name
from tallygate.cli.doctor import api_types, facts
from tallygate.cli.sources.cluster_source import list_cap_ledgers
from tallygate.cli.sources.resource_lists import ListError, UnknownResourceError, list_resource
from tallygate.cluster import kinds as cluster_kinds
from tallygate.cluster.cluster_state import ClusterState
from tallygate.cluster.state_builder import StateBuilder
from tallygate.kube.api_errors import ApiError
from tallygate.kube.client import ApiClient
from tallygate.objects.core import Container, Pod, PodSpec, ResourceList, ResourceQuota, ResourceRequirements
from tallygate.objects.meta import ObjectMeta
from tallygate.policy.model import PodFilter
from tallygate.state.informers.device_store import RESOURCE_SLICE_CODEC
from tallygate.state.informers.pod_records import ChargeGroup

_ONE = msgspec.Raw(b'"1"')
_ALL_PODS: Final = facts.NotRead("a pass over all pods and nodes")


class ListedFacts(NamedTuple):
    """The facts about objects that may be many."""

    namespaces: tuple[api_types.LabelledNamespace, ...] | facts.Unavailable
    quotas: tuple[ResourceQuota, ...] | facts.Unavailable
    device_classes: Mapping[str, str] | facts.Unavailable
    opaque_name_users: tuple[facts.OpaqueNameUser, ...] | facts.Unavailable
    pod_groups: tuple[facts.PodGroup, ...] | facts.Unavailable


class ClusterLists:
    """The objects of a cluster that may be many, in its state; a kind that cannot be listed is `Unavailable`."""

    def __init__(self, state: ClusterState, unavailable: Mapping[str, facts.Unavailable]) -> None:
        self._state = state
        self._unavailable = unavailable

    @classmethod
    def list_all(cls, client: ApiClient) -> Self:
        """Return what is listed now."""
        unavailable: dict[str, facts.Unavailable] = {}
        builder = StateBuilder()
        for resource in (
            cluster_kinds.NAMESPACES,
            cluster_kinds.QUOTAS,
            cluster_kinds.NODES,
            cluster_kinds.PODS,
            cluster_kinds.CLASSES,
        ):
            try:
                listed = list_resource(client, builder.create_codec(cluster_kinds.KINDS_BY_RESOURCE[resource].kind))
                builder.add_list(resource, listed)
            except UnknownResourceError:
                builder.add_problem(resource, cluster_kinds.KindProblem(cluster_kinds.UnknownReason.UNSERVED))
            except (ListError, ApiError) as error:
                unavailable[resource] = facts.Unavailable(str(error))
        return cls(builder.finish(), unavailable)

    @classmethod
    def take(cls, state: ClusterState) -> Self:
        """Return what a state has that is filled by watches."""
        resources = (cluster_kinds.NAMESPACES, cluster_kinds.QUOTAS, cluster_kinds.CLASSES)
        problems = {resource: state.describe_problem(resource) for resource in resources}
        return cls(state, {resource: facts.Unavailable(text) for resource, text in problems.items() if text})

    def read(self) -> ListedFacts:
        """Return all facts."""
        return self.read_without_pods()._replace(
            opaque_name_users=self.list_opaque_name_users(), pod_groups=self.list_pod_groups()
        )

    def read_without_pods(self) -> ListedFacts:
        """Return the facts that need no pass over all pods."""
        return ListedFacts(self.list_namespaces(), self.list_quotas(), self.list_device_classes(), _ALL_PODS, _ALL_PODS)

    def list_namespaces(self) -> tuple[api_types.LabelledNamespace, ...] | facts.Unavailable:
        """Return every namespace."""
        return self._unavailable.get(cluster_kinds.NAMESPACES) or tuple(
            api_types.LabelledNamespace(record.name, dict(record.labels), record.limit_texts, record.uid)
            for record in self._state.namespaces.list_records()
        )

    def list_quotas(self) -> tuple[ResourceQuota, ...] | facts.Unavailable:
        """Return every ResourceQuota."""
        quotas = self._state.quotas
        return self._unavailable.get(cluster_kinds.QUOTAS) or tuple(
            structs.replace(quota, metadata=structs.replace(quota.metadata or ObjectMeta(), namespace=namespace))
            for namespace in quotas.list_namespaces()
            for quota in quotas.list_quotas(namespace)
        )

    def list_opaque_name_users(self) -> tuple[facts.OpaqueNameUser, ...] | facts.Unavailable:
        """Return the nodes that advertise opaque names and the pods that request them and have not ended."""
        unavailable = self._unavailable.get(cluster_kinds.NODES) or self._unavailable.get(cluster_kinds.PODS)
        return unavailable or (*_list_nodes_with_opaque_names(self._state), *_list_pods_with_opaque_names(self._state))

    def list_pod_groups(self) -> tuple[facts.PodGroup, ...] | facts.Unavailable:
        """Return the pods that have not ended, in groups whose pods request the same."""
        return self._unavailable.get(cluster_kinds.PODS) or tuple(_list_pod_groups(self._state))

    def list_device_classes(self) -> Mapping[str, str] | facts.Unavailable:
        """Return the extended resource of each class of devices, empty if it has none."""
        return self._unavailable.get(cluster_kinds.CLASSES) or self._state.device_classes.get_resources_by_class()


def count_published_devices(client: ApiClient, caps: CapIndex | None) -> int | facts.Unavailable | None:
    """Return the number of devices in ResourceSlices, None if no cap counts them by attributes or capacities."""
    if caps is None or not any(cap.device_meters for cap in caps.list_caps()):
        return None
    try:
        return sum(len(item.devices) for item in list_resource(client, RESOURCE_SLICE_CODEC).items)
    except UnknownResourceError:
        return 0
    except (ListError, ApiError) as error:
        return facts.Unavailable(str(error))


def list_cap_limits(
    client: ApiClient,
    caps: CapIndex | None,
    namespaces: tuple[api_types.LabelledNamespace, ...] | facts.Unavailable,
) -> tuple[facts.CapLimits, ...] | facts.Unavailable:
    """Return the hard limits of caps per namespace from the policies, else from the CapLedgers, no shared caps."""
    if caps is None:
        return _list_limits_by_ledgers(client)
    if isinstance(namespaces, facts.Unavailable):
        return namespaces
    return tuple(_list_limits_by_policies(caps, namespaces))


def _list_limits_by_ledgers(client: ApiClient) -> tuple[facts.CapLimits, ...] | facts.Unavailable:
    try:
        ledger_list = list_cap_ledgers(client)
    except (ListError, ApiError) as error:
        return facts.Unavailable(str(error))
    if ledger_list.unavailable_reason:
        return facts.Unavailable(f"{ledger_list.unavailable_reason}; name the policy files by --policies")
    return tuple(
        facts.CapLimits(get_cap_name(key.cap), key.namespace, ledger_record.ledger.hard, counts_all_pods=False)
        for key, ledger_record in ledger_list.records.items()
        if ledger_record.ledger and key.namespace
    )


def _list_limits_by_policies(
    caps: CapIndex, namespaces: tuple[api_types.LabelledNamespace, ...]
) -> Iterator[facts.CapLimits]:
    for namespace in namespaces:
        for active_cap in caps.find_matching(namespace.name, namespace.labels).caps:
            if not active_cap.definition.shared:
                yield facts.CapLimits(
                    active_cap.definition.name,
                    namespace.name,
                    active_cap.hard,
                    counts_all_pods=active_cap.definition.pods == PodFilter(),
                )


def _list_nodes_with_opaque_names(state: ClusterState) -> Iterator[facts.OpaqueNameUser]:
    for node in state.nodes.list_nodes():
        node_name = (node.metadata and node.metadata.name) or ""
        for name in _select_opaque((node.status and node.status.capacity) or ()):
            yield facts.OpaqueNameUser("Node", "", node_name, name)


def _list_pods_with_opaque_names(state: ClusterState) -> Iterator[facts.OpaqueNameUser]:
    names_by_group: dict[ChargeGroup, list[str]] = {}
    for namespace in state.pods.list_namespaces():
        for pod in state.pods.list_all(namespace):
            if pod.group not in names_by_group:
                spec = pod.group.to_pod().spec or PodSpec()
                containers = (*(spec.containers or ()), *(spec.init_containers or ()))
                requests = [(container.resources and container.resources.requests) or {} for container in containers]
                names_by_group[pod.group] = _select_opaque({name for request in requests for name in request})
            for name in () if pod.has_ended else names_by_group[pod.group]:
                yield facts.OpaqueNameUser("Pod", namespace, pod.name, name)


def _list_pod_groups(state: ClusterState) -> Iterator[facts.PodGroup]:
    """Yield groups by what the conditions of policies read: the names of resources, claims, annotations for GPUs."""
    contents: dict[ChargeGroup, bytes] = {}
    for namespace in state.pods.list_namespaces():
        counts = Counter[bytes]()
        for pod in state.pods.list_all(namespace):
            if pod.has_ended:
                continue
            if pod.group not in contents:
                contents[pod.group] = _encode_requests(pod.group.to_pod())
            counts[contents[pod.group]] += 1
        for content, count in counts.items():
            yield facts.PodGroup(namespace, msgspec.json.decode(content), count)


def _encode_requests(pod: Pod) -> bytes:
    annotations = (pod.metadata or ObjectMeta()).annotations
    spec = pod.spec or PodSpec()
    requests = PodSpec(
        containers=[Container(resources=_drop_amounts(each.resources)) for each in spec.containers or ()],
        init_containers=[Container(resources=_drop_amounts(each.resources)) for each in spec.init_containers or ()],
        overhead=_set_to_one(spec.overhead),
        resources=_drop_amounts(spec.resources),
        resource_claims=spec.resource_claims,
    )
    return msgspec.json.encode(Pod(ObjectMeta(annotations=annotations), requests), order="deterministic")


def _drop_amounts(resources: ResourceRequirements | None) -> ResourceRequirements | None:
    if resources is None:
        return None
    return ResourceRequirements(requests=_set_to_one(resources.requests), limits=_set_to_one(resources.limits))


def _set_to_one(amounts: ResourceList | None) -> ResourceList | None:
    return None if amounts is None else dict.fromkeys(amounts, _ONE)


def _select_opaque(names: Iterable[str]) -> list[str]:
    return sorted(name for name in names if name.startswith(OPAQUE_PREFIX))
