"""The gathering of the facts: everything that a check needs is read once.

A fact that cannot be read is `Unavailable`.

The kinds of other projects that an API server serves and that are read are found by discovery, others with pod
templates by the schemas of CustomResourceDefinitions: a list `containers` whose items have an `image`, or a field of
any content that is called a template.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, Final, TypeVar

import msgspec

from tallygate.admission.cap_index import CapIndex
from tallygate.admission.webhook_configuration import CONFIGURATION_NAME, DEFAULT_NAMESPACE
from tallygate.admission.workload_resources import ServedResources
from tallygate.backstop.compiled_objects import CompiledObject
from tallygate.cli.compile.cluster_objects import list_compiled_objects
from tallygate.cli.doctor import api_types, facts, probe
from tallygate.cli.doctor.certificate_chain import fetch_served_certificate as shown_at
from tallygate.cli.doctor.doctor_client import DoctorClient
from tallygate.cli.doctor.listed_facts import ClusterLists, ListedFacts, count_published_devices, list_cap_limits
from tallygate.cli.doctor.mounted_policies import (
    CONFIGURATIONS_PATH,
    GATE_NAME,
    create_deployment_path,
    find_service_namespace,
    get_policies,
    list_labelled_config_maps,
    read_stored_policies,
)
from tallygate.cli.doctor.permissions import DEFAULT_SECRET, LEADER_LEASE_NAME, Permission, list_permissions
from tallygate.cli.doctor.probe import choose_namespace, review_permissions, send_dry_runs
from tallygate.cli.progress import track
from tallygate.cli.sources.resource_lists import ListError
from tallygate.errors import TallygateError
from tallygate.kube.api_errors import ApiError
from tallygate.kube.client import ApiClient, ClientConfig, ResponseLimits
from tallygate.kube.discovery import Discovery
from tallygate.kube.pagination import list_raw_pages
from tallygate.objects.admission_registration import WebhookConfiguration
from tallygate.policy.known_kinds import KNOWN_KINDS
from tallygate.policy.limit_annotations import LimitRecords
from tallygate.policy.model import PolicySet
from tallygate.policy.workload_kinds import WorkloadKind
from tallygate.state.kubernetes import cap_ledger
from tallygate.state.kubernetes.limit_record_store import read_limit_records

_SELECTOR = "app.kubernetes.io/name=tallygate,app.kubernetes.io/component=gate"
_MAX_PODS = 50
_POD_LIMITS: Final = ResponseLimits(2.0, 5.0, 5.0, 16 * 1024 * 1024)
_HTTPS_PORT, _HTTPS_PORT_NAME = 8443, "https"
_MAX_HANDSHAKES = 3
_DRY_RUNS: Final = facts.NotRead("create on pods, for two that are a dry run")
_SECRET: Final = facts.NotRead("get on the Secret of the gate, or a pod of the gate that is ready")
_LABELLED_CONFIG_MAPS: Final = facts.NotRead("list on ConfigMaps in the gate's namespace")
_COMPILED_OBJECTS: Final = facts.NotRead("list on ValidatingAdmissionPolicies and their bindings")
_DEFINITIONS_OF_ALL: Final = facts.NotRead("list on all CustomResourceDefinitions")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DoctorRequest:
    """The parameters of `doctor`: the gate's namespace (None: from its Service), and more.

    `policies` are the given ones, `monitors` URLs of monitor ports of replicas that run elsewhere. `is_pod` is set in a
    pod of the same cluster, with rights to read a part: it connects to the addresses of the gate's pods, and leaves
    facts out that need further rights, as `NotRead`.
    """

    namespace: str | None = None
    policies: PolicySet | None = None
    monitors: tuple[str, ...] = ()
    cluster_options: tuple[str, ...] = ()
    is_pod: bool = False


def gather_facts(connection: ClientConfig, request: DoctorRequest) -> facts.GateFacts:
    """Gather all facts.

    Raises:
        UsageError: if the API server cannot be reached.
    """
    api, client = DoctorClient(connection), ApiClient(connection)
    clock_offset = api.check_reachable().clock_offset
    try:
        return _Gatherer(api, client, request, ClusterLists.list_all(client).read()).gather(clock_offset)
    finally:
        client.close()


def gather_facts_of_pod(connection: ClientConfig, request: DoctorRequest, listed: ListedFacts) -> facts.GateFacts:
    """Gather the facts that a pod with few rights may read, beside those about objects that it has seen.

    Raises:
        UsageError: if the API server cannot be reached.
    """
    api, client = DoctorClient(connection, _POD_LIMITS), ApiClient(connection, _POD_LIMITS)
    try:
        clock_offset = api.check_reachable().clock_offset
        return _Gatherer(api, client, replace(request, is_pod=True), listed).gather(clock_offset)
    finally:
        client.close()
        api.close()


class _Gatherer:
    """The gathering for one gate."""

    def __init__(self, api: DoctorClient, client: ApiClient, request: DoctorRequest, listed: ListedFacts) -> None:
        self._api = api
        self._client = client
        self._listed = listed
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
        pods, namespaces = self._list_pods(), self._listed.namespaces
        location = facts.GateLocation(
            self._namespace,
            _find_secret_name(self._deployment),
            self._request.cluster_options,
            _find_service_account(self._deployment),
        )
        lease = self._get_lease()
        stored = read_stored_policies(self._api, self._namespace, self._deployment)
        policies = self._request.policies or get_policies(stored)
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
            dry_runs=self._read(
                lambda: send_dry_runs(self._api, choose_namespace(self._configurations, namespaces)), _DRY_RUNS
            ),
            secret=self._read(lambda: self._get_secret(location.secret_name), _SECRET),
            served_certificate=self._fetch_served_certificate(pods),
            deployment=self._deployment,
            disruption_budgets=self._api.list_objects(
                f"/apis/policy/v1/namespaces/{self._namespace}/poddisruptionbudgets", api_types.GateDisruptionBudget
            ),
            pods=pods,
            replicas=self._probe_replicas(pods),
            permissions=self._review_rights(location.service_account, list_permissions(known)),
            ledger_definition=self._api.get_object(_LEDGER_DEFINITION, api_types.CustomResourceDefinition),
            lease=lease,
            quotas=self._listed.quotas,
            cap_limits=list_cap_limits(self._client, caps, namespaces),
            opaque_name_users=self._listed.opaque_name_users,
            pod_groups=self._listed.pod_groups,
            device_classes=self._listed.device_classes,
            policies=policies,
            stored_policies=stored,
            labelled_config_maps=self._list_labelled_config_maps(),
            published_devices=count_published_devices(self._client, caps),
            limit_records=self._read_limit_records(),
            network_policies=self._list_network_policies(),
            compiled_objects=self._read(self._list_compiled_objects, _COMPILED_OBJECTS),
            workloads=self._read_workloads((*KNOWN_KINDS, *kinds)),
        )

    def _read(self, read: Callable[[], T], left_out: facts.NotRead) -> T | facts.NotRead:
        """Return a fact, or for a pod that it is left out."""
        return left_out if self._request.is_pod else read()

    def _get_secret(self, name: str) -> api_types.TlsSecret | facts.Unavailable | None:
        return self._api.get_object(f"/api/v1/namespaces/{self._namespace}/secrets/{name}", api_types.TlsSecret)

    def _list_labelled_config_maps(self) -> tuple[str, ...] | facts.Unavailable:
        return self._read(lambda: list_labelled_config_maps(self._api, self._namespace), _LABELLED_CONFIG_MAPS)

    def _read_workloads(self, kinds: tuple[WorkloadKind, ...]) -> facts.WorkloadFacts:
        if self._request.is_pod:
            return facts.WorkloadFacts(kinds, _DEFINITIONS_OF_ALL, _DEFINITIONS_OF_ALL)
        return read_workload_facts(self._client, kinds)

    def _fetch_served_certificate(
        self, pods: tuple[api_types.GatePod, ...] | facts.Unavailable
    ) -> facts.ServedCertificate | facts.Unavailable | None:
        clients = [
            webhook.client_config for configuration in self._configurations for webhook in configuration.webhooks
        ]
        bundles = {client.ca_bundle for client in clients}
        urls = [client.url for client in clients if client.url]
        if urls:
            return shown_at(urls[0], bundles)
        return self._fetch_certificate_of_pods(pods, bundles) if self._request.is_pod else None

    def _fetch_certificate_of_pods(
        self, pods: tuple[api_types.GatePod, ...] | facts.Unavailable, bundles: Iterable[bytes]
    ) -> facts.ServedCertificate | facts.Unavailable:
        """Return the certificate of the first replica that answers, by its address: a pod may look up no name."""
        if isinstance(pods, facts.Unavailable):
            return pods
        shown: facts.ServedCertificate | facts.Unavailable = facts.Unavailable("no pod of the gate is ready")
        for pod in [pod for pod in pods if pod.is_ready and pod.status.pod_ip][:_MAX_HANDSHAKES]:
            address = pod.status.pod_ip, pod.find_port(_HTTPS_PORT_NAME, _HTTPS_PORT)
            shown = shown_at(f"https://{GATE_NAME}.{self._namespace}.svc", [*filter(None, bundles)], address)
            if isinstance(shown, facts.ServedCertificate):
                break
        return shown

    def _get_lease(self) -> api_types.LeaderLease | facts.Unavailable | None:
        path = f"/apis/coordination.k8s.io/v1/namespaces/{self._namespace}/leases/{LEADER_LEASE_NAME}"
        return self._api.get_object(path, api_types.LeaderLease)

    def _get_configuration(self, kind: str) -> WebhookConfiguration | facts.Unavailable | None:
        return self._api.get_object(f"{CONFIGURATIONS_PATH}/{kind}s/{CONFIGURATION_NAME}", WebhookConfiguration)

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
        return tuple(configuration for configuration in configurations if configuration.name != CONFIGURATION_NAME)

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
        if self._request.is_pod:
            return _probe_addresses(pods)
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


def _probe_addresses(pods: Iterable[api_types.GatePod]) -> tuple[facts.Replica, ...] | facts.NotRead:
    """Return the replicas; if none of them answers, the network may be the reason, and nothing was learned of them."""
    replicas = tuple(probe.probe_addresses(pods, _POD_LIMITS))
    failures = [each.readiness.reason for each in replicas if isinstance(each.readiness, facts.Unavailable)]
    if failures and len(failures) == len(replicas):
        return facts.NotRead(
            f"an answer of a replica of the gate at its port {probe.MONITOR_PORT_NAME} ({failures[0]})"
        )
    return replicas


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
