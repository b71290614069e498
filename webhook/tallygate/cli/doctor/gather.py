"""The gathering of the facts: everything that a check needs is read once.

`ClusterLists` has the state of the cluster: namespaces, ResourceQuotas, limits of caps, classes of devices, and objects
that use opaque names. A fact that cannot be read is `Unavailable`.

The kinds of other projects that an API server serves and that are read are found by discovery, others with pod
templates by the schemas of CustomResourceDefinitions: a list `containers` whose items have an `image`, or a field of
any content that is called a template.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from tallygate.accounting.names import OPAQUE_PREFIX
from tallygate.admission.cap_index import CapIndex, get_cap_name
from tallygate.admission.webhook_configuration import DEFAULT_NAMESPACE
from tallygate.admission.workload_resources import ServedResources
from tallygate.backstop.compiled_objects import CompiledObject
from tallygate.cli.compile.cluster_objects import list_compiled_objects
from tallygate.cli.doctor import api_types, facts, probe
from tallygate.cli.doctor.certificate_chain import fetch_served_certificate as shown_at
from tallygate.cli.doctor.doctor_client import DoctorClient
from tallygate.cli.doctor.mounted_policies import (
    CONFIGURATIONS_PATH,
    GATE_NAME,
    create_deployment_path,
    find_service_namespace,
    read_mounted_policies,
)
from tallygate.cli.doctor.permissions import DEFAULT_SECRET, LEADER_LEASE_NAME, Permission, list_permissions
from tallygate.cli.doctor.probe import choose_namespace, review_permissions, send_dry_runs
from tallygate.cli.progress import track
from tallygate.cli.sources.cluster_source import list_cap_ledgers
from tallygate.cli.sources.resource_lists import ListError, UnknownResourceError, list_resource
from tallygate.cluster import kinds as cluster_kinds
from tallygate.cluster.cluster_state import ClusterState
from tallygate.cluster.state_builder import StateBuilder
from tallygate.errors import TallygateError
from tallygate.kube.api_errors import ApiError
from tallygate.kube.client import ApiClient, ClientConfig
from tallygate.kube.discovery import Discovery
from tallygate.kube.pagination import list_raw_pages
from tallygate.objects.admission_registration import WebhookConfiguration
from tallygate.objects.core import Container, Pod, PodSpec, ResourceList, ResourceQuota, ResourceRequirements
from tallygate.objects.meta import ObjectMeta
from tallygate.policy.known_kinds import KNOWN_KINDS
from tallygate.policy.limit_annotations import LimitRecords
from tallygate.policy.model import PodFilter, PolicySet
from tallygate.policy.workload_kinds import WorkloadKind
from tallygate.state.informers.device_store import RESOURCE_SLICE_CODEC
from tallygate.state.informers.pod_records import ChargeGroup
from tallygate.state.kubernetes import cap_ledger
from tallygate.state.kubernetes.limit_record_store import read_limit_records

_ONE = msgspec.Raw(b'"1"')
_SELECTOR = "app.kubernetes.io/name=tallygate,app.kubernetes.io/component=gate"
_MAX_PODS = 50
_LISTED_KINDS = ("Namespace", "ResourceQuota", "Node", "Pod", "DeviceClass")


class ClusterLists:
    """The objects of a cluster that may be many, in its state; a kind that cannot be listed is `Unavailable`."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self._unavailable: dict[str, facts.Unavailable] = {}
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
                self._unavailable[resource] = facts.Unavailable(str(error))
        self._state = builder.finish()

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
            replace(quota, metadata=replace(quota.metadata or ObjectMeta(), namespace=namespace))
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

    def count_published_devices(self, caps: CapIndex | None) -> int | facts.Unavailable | None:
        """Return the number of devices in ResourceSlices, None if no cap counts them by attributes or capacities."""
        if caps is None or not any(cap.device_meters for cap in caps.list_caps()):
            return None
        try:
            return sum(len(item.devices) for item in list_resource(self._client, RESOURCE_SLICE_CODEC).items)
        except UnknownResourceError:
            return 0
        except (ListError, ApiError) as error:
            return facts.Unavailable(str(error))

    def list_cap_limits(
        self, caps: CapIndex | None, namespaces: tuple[api_types.LabelledNamespace, ...] | facts.Unavailable
    ) -> tuple[facts.CapLimits, ...] | facts.Unavailable:
        """Return the hard limits of caps per namespace from the policies, else from the CapLedgers, no shared caps."""
        if caps is None:
            return self._list_limits_by_ledgers()
        if isinstance(namespaces, facts.Unavailable):
            return namespaces
        return tuple(_list_limits_by_policies(caps, namespaces))

    def _list_limits_by_ledgers(self) -> tuple[facts.CapLimits, ...] | facts.Unavailable:
        try:
            ledger_list = list_cap_ledgers(self._client)
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


@dataclass(frozen=True, slots=True)
class DoctorRequest:
    """The parameters of `doctor`: the configurations' name, the gate's namespace (None: from its Service), and more.

    `policies` are the given ones, `monitors` URLs of monitor ports of replicas that run elsewhere.
    """

    name: str
    namespace: str | None = None
    policies: PolicySet | None = None
    monitors: tuple[str, ...] = ()
    cluster_options: tuple[str, ...] = ()


def gather_facts(connection: ClientConfig, request: DoctorRequest) -> facts.GateFacts:
    """Gather all facts.

    Raises:
        UsageError: if the API server cannot be reached.
    """
    api, client = DoctorClient(connection), ApiClient(connection)
    clock_offset = api.check_reachable().clock_offset
    try:
        return _Gatherer(api, client, request).gather(clock_offset)
    finally:
        client.close()


class _Gatherer:
    """The gathering for one gate."""

    def __init__(self, api: DoctorClient, client: ApiClient, request: DoctorRequest) -> None:
        self._api = api
        self._client = client
        self._lists = ClusterLists(client)
        self._request = request
        self._own_configurations = {kind: self._get_configuration(kind) for kind in (facts.MUTATING, facts.VALIDATING)}
        configurations = [
            configuration
            for configuration in self._own_configurations.values()
            if isinstance(configuration, WebhookConfiguration)
        ]
        self._configurations = configurations
        self._namespace = request.namespace or find_service_namespace(configurations) or DEFAULT_NAMESPACE
        self._deployment = api.get_object(create_deployment_path(self._namespace), api_types.GateDeployment)

    def gather(self, clock_offset: float | None) -> facts.GateFacts:
        pods = self._list_pods()
        namespaces = self._lists.list_namespaces()
        location = facts.GateLocation(
            self._namespace,
            self._request.name,
            _find_secret_name(self._deployment),
            self._request.cluster_options,
            _find_service_account(self._deployment),
        )
        lease = self._get_lease()
        policies = self._request.policies or read_mounted_policies(self._api, self._namespace, self._deployment)
        known = None if isinstance(policies, facts.Unavailable) else policies
        caps, kinds = (None, ()) if known is None else (CapIndex(known, datetime.now(UTC)), known.workload_kinds)
        return facts.GateFacts(
            now=datetime.now(UTC),  # directly after the Lease was read: the check compares both to the second
            version=version("tallygate"),
            location=location,
            clock_offset=clock_offset,
            mutating=self._own_configurations[facts.MUTATING],
            validating=self._own_configurations[facts.VALIDATING],
            other_configurations=self._list_other_configurations(),
            namespaces=namespaces,
            dry_runs=send_dry_runs(self._api, choose_namespace(self._configurations, namespaces)),
            secret=self._api.get_object(
                f"/api/v1/namespaces/{self._namespace}/secrets/{location.secret_name}", api_types.TlsSecret
            ),
            served_certificate=_fetch_served_certificate(self._configurations),
            deployment=self._deployment,
            disruption_budgets=self._api.list_objects(
                f"/apis/policy/v1/namespaces/{self._namespace}/poddisruptionbudgets", api_types.GateDisruptionBudget
            ),
            pods=pods,
            replicas=self._probe_replicas(pods),
            permissions=self._review_rights(location.service_account, list_permissions(known)),
            ledger_definition=self._api.get_object(_LEDGER_DEFINITION, api_types.CustomResourceDefinition),
            lease=lease,
            quotas=self._lists.list_quotas(),
            cap_limits=self._lists.list_cap_limits(caps, namespaces),
            opaque_name_users=self._lists.list_opaque_name_users(),
            pod_groups=self._lists.list_pod_groups(),
            device_classes=self._lists.list_device_classes(),
            policies=policies,
            published_devices=self._lists.count_published_devices(caps),
            limit_records=self._read_limit_records(),
            network_policies=self._list_network_policies(),
            compiled_objects=self._list_compiled_objects(),
            workloads=read_workload_facts(self._client, (*KNOWN_KINDS, *kinds)),
        )

    def _get_lease(self) -> api_types.LeaderLease | facts.Unavailable | None:
        path = f"/apis/coordination.k8s.io/v1/namespaces/{self._namespace}/leases/{LEADER_LEASE_NAME}"
        return self._api.get_object(path, api_types.LeaderLease)

    def _get_configuration(self, kind: str) -> WebhookConfiguration | facts.Unavailable | None:
        return self._api.get_object(f"{CONFIGURATIONS_PATH}/{kind}s/{self._request.name}", WebhookConfiguration)

    def _read_limit_records(self) -> LimitRecords | facts.Unavailable:
        try:
            return read_limit_records(self._client, self._namespace)
        except TallygateError as error:
            return facts.Unavailable(str(error))

    def _list_compiled_objects(self) -> tuple[CompiledObject, ...] | facts.Unavailable:
        try:
            return tuple(list_compiled_objects(self._client))
        except ListError as error:
            return facts.Unavailable(str(error))

    def _list_other_configurations(self) -> tuple[WebhookConfiguration, ...] | facts.Unavailable:
        configurations = self._api.list_objects(f"{CONFIGURATIONS_PATH}/{facts.MUTATING}s", WebhookConfiguration)
        if isinstance(configurations, facts.Unavailable):
            return configurations
        return tuple(configuration for configuration in configurations if configuration.name != self._request.name)

    def _list_network_policies(self) -> tuple[api_types.GateNetworkPolicy, ...] | facts.Unavailable:
        path = f"/apis/networking.k8s.io/v1/namespaces/{self._namespace}/networkpolicies"
        return self._api.list_objects(path, api_types.GateNetworkPolicy)

    def _list_pods(self) -> tuple[api_types.GatePod, ...] | facts.Unavailable:
        query = {"labelSelector": _SELECTOR, "limit": f"{_MAX_PODS}"}
        return self._api.list_objects(f"/api/v1/namespaces/{self._namespace}/pods", api_types.GatePod, query)

    def _probe_replicas(
        self, pods: tuple[api_types.GatePod, ...] | facts.Unavailable
    ) -> tuple[facts.Replica, ...] | facts.Unavailable:
        if self._request.monitors:
            return tuple(probe.probe_monitors(self._request.monitors))
        if isinstance(pods, facts.Unavailable):
            return pods
        if not pods and any(
            webhook.client_config.url for configuration in self._configurations for webhook in configuration.webhooks
        ):
            return facts.Unavailable(
                "the gate is called by URL and runs elsewhere; name its monitor port by --monitor URL"
            )
        return tuple(probe.probe_pods(self._api, track("asking replicas", pods)))

    def _review_rights(
        self, name: str, needed: Sequence[Permission]
    ) -> tuple[facts.PermissionResult, ...] | facts.Unavailable:
        account = self._api.get_object(
            f"/api/v1/namespaces/{self._namespace}/serviceaccounts/{name}", api_types.ServiceAccount
        )
        if account is None:
            return facts.Unavailable(f"there is no ServiceAccount {self._namespace}/{name}")
        return review_permissions(self._api, self._namespace, name, track("asking for rights", needed))


def _find_service_account(deployment: api_types.GateDeployment | facts.Unavailable | None) -> str:
    """Return the name of the ServiceAccount of the gate's pods, else the default."""
    if not isinstance(deployment, api_types.GateDeployment):
        return GATE_NAME
    return deployment.spec.template.spec.service_account_name


def _find_secret_name(deployment: api_types.GateDeployment | facts.Unavailable | None) -> str:
    """Return the name of the gate's Secret from the gate's arguments, else from its volumes, else the default."""
    if not isinstance(deployment, api_types.GateDeployment):
        return DEFAULT_SECRET
    secret_arguments = [
        argument.rpartition("/")[2] for argument in deployment.arguments if argument.startswith("--tls-secret=")
    ]
    mounted = [volume.secret.secret_name for volume in deployment.spec.template.spec.volumes if volume.secret]
    return next(iter((*secret_arguments, *mounted)), DEFAULT_SECRET)


def _fetch_served_certificate(
    configurations: Sequence[WebhookConfiguration],
) -> facts.ServedCertificate | facts.Unavailable | None:
    clients = [webhook.client_config for configuration in configurations for webhook in configuration.webhooks]
    urls = [client.url for client in clients if client.url]
    return shown_at(urls[0], {client.ca_bundle for client in clients}) if urls else None


_DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_LEDGER_DEFINITION: Final = f"{_DEFINITIONS}/{cap_ledger.PLURAL}.{cap_ledger.GROUP}"
_PAGE_SIZE: Final = 20  # a definition with pod templates has up to a megabyte
_STATUS: Final = "status"
_TEMPLATE: Final = "template"
_NULL: Final = msgspec.Raw(b"null")

Schema = Mapping[str, Any]
"""A schema of OpenAPI v3 (JSONSchemaProps)."""


class _Schema(msgspec.Struct, rename={"content": "openAPIV3Schema"}, frozen=True):
    content: msgspec.Raw = _NULL


class _Version(msgspec.Struct, frozen=True):
    served: bool = False
    schema: _Schema = _Schema()


class _Names(msgspec.Struct, frozen=True):
    kind: str


class _Spec(msgspec.Struct, frozen=True):
    group: str
    names: _Names
    versions: list[_Version] = []


class _Definition(msgspec.Struct, frozen=True):
    spec: _Spec


_DECODER: Final = msgspec.json.Decoder(_Definition)


def read_workload_facts(client: ApiClient, kinds: tuple[WorkloadKind, ...]) -> facts.WorkloadFacts:
    """Return those of the kinds that an API server serves, and the other ones with pod templates."""
    return facts.WorkloadFacts(kinds, _read_served_kinds(client, kinds), _list_unread_kinds(client, kinds))


def _read_served_kinds(
    client: ApiClient, kinds: Iterable[WorkloadKind]
) -> tuple[facts.ServedKind, ...] | facts.Unavailable:
    try:
        served = Discovery(client).read()
    except ApiError as error:
        return facts.Unavailable(str(error))
    return tuple(_list_served(kinds, served))


def _list_served(kinds: Iterable[WorkloadKind], served: ServedResources) -> Iterator[facts.ServedKind]:
    for kind in kinds:
        versions = tuple(version for group, version, plural in served if (group, plural) == (kind.group, kind.resource))
        if versions:
            yield facts.ServedKind(kind, {version: served[kind.group, version, kind.resource] for version in versions})


def _list_unread_kinds(
    client: ApiClient, kinds: Iterable[WorkloadKind]
) -> tuple[facts.UnreadKind, ...] | facts.Unavailable:
    read = {(kind.group, kind.kind) for kind in kinds}
    try:
        return tuple(
            unread
            for page in list_raw_pages(client.get, _DEFINITIONS, _PAGE_SIZE, None)
            for item in page
            if (unread := _find_unread(_DECODER.decode(item).spec, read)) is not None
        )
    except ApiError as error:
        return facts.Unavailable(str(error))
    except (ValueError, RecursionError) as error:
        return facts.Unavailable(f"a CustomResourceDefinition is not as an API server would have stored it: {error}")


def _find_unread(spec: _Spec, read: set[tuple[str, str]]) -> facts.UnreadKind | None:
    if (spec.group, spec.names.kind) in read:
        return None
    for defined in spec.versions:
        schema = msgspec.json.decode(defined.schema.content) if defined.served else None
        field = find_pod_template(schema) if isinstance(schema, dict) else ""
        if field:
            return facts.UnreadKind(spec.group, spec.names.kind, field)
    return None


def find_pod_template(schema: Schema) -> str:
    """Return the path of the first pod template or pod spec in a schema; an empty string if it has none."""
    found = sorted(_list_templates(schema), key=lambda path: (path.count("."), path))
    return found[0] if found else ""


def _list_templates(schema: Schema) -> Iterator[str]:
    rest: list[tuple[str, Schema]] = [("", schema)]
    while rest:
        path, current = rest.pop()
        if _is_pod_spec(current) or (_is_open(current) and path.rpartition(".")[2].lower().endswith(_TEMPLATE)):
            yield path
            continue
        properties = current.get("properties")
        for name, child in (properties if isinstance(properties, dict) else {}).items():
            if isinstance(child, dict) and (path or name != _STATUS):
                rest.append((f"{path}.{name}" if path else name, child))
        for key, step in (("items", "[*]"), ("additionalProperties", ".*")):
            child = current.get(key)
            if isinstance(child, dict):
                rest.append((f"{path}{step}", child))


def _is_pod_spec(schema: Schema) -> bool:
    value: Any = schema
    for key in ("properties", "containers", "items", "properties", "image"):
        value = value.get(key) if isinstance(value, dict) else None
    return value is not None


def _is_open(schema: Schema) -> bool:
    return schema.get("x-kubernetes-preserve-unknown-fields") is True
