"""Gathering: everything that a check goes by, read once. What fails is kept as what could not be seen."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version

from webhook.admission.cap_index import CapIndex
from webhook.admission.webhook_configuration import DEFAULT_NAMESPACE
from webhook.cli.doctoring import watching
from webhook.cli.doctoring.api import DoctorClient
from webhook.cli.doctoring.entitlement import review_permissions
from webhook.cli.doctoring.facts import (
    MUTATING,
    VALIDATING,
    GateFacts,
    GateLocation,
    PermissionResult,
    Replica,
    ServedCertificate,
    Unavailable,
)
from webhook.cli.doctoring.lists import PagedLists
from webhook.cli.doctoring.probing import choose_namespace, send_dry_runs
from webhook.cli.doctoring.records import (
    CustomResourceDefinition,
    GateDeployment,
    GateDisruptionBudget,
    GatePod,
    LeaderLease,
    ServiceAccount,
    TlsSecret,
    WebhookConfiguration,
)
from webhook.cli.doctoring.rights import DEFAULT_SECRET, LEADER_LEASE_NAME, PERMISSIONS
from webhook.cli.doctoring.shown import fetch_served_certificate as shown_at
from webhook.cli.progress import track
from webhook.state.kubernetes import naming
from webhook.state.watch.connect import Connection
from webhook.state.watch.pool import PooledTransport

_CONFIGURATIONS_PATH = "/apis/admissionregistration.k8s.io/v1"
_SELECTOR = "app.kubernetes.io/name=tallygate,app.kubernetes.io/component=gate"
_OBJECT_NAME = "tallygate"  # Deployment, Service and ServiceAccount
_MAX_PODS = 50


@dataclass(frozen=True, slots=True)
class DoctorRequest:
    """What is asked about: the configurations' name, the gate's namespace if it is not to be found out, and more.

    `caps` are those of policy files, `monitors` URLs of monitor ports of replicas that run elsewhere.
    """

    name: str
    namespace: str | None = None
    caps: CapIndex | None = None
    monitors: tuple[str, ...] = ()
    cluster_options: tuple[str, ...] = ()


def gather_facts(connection: Connection, request: DoctorRequest) -> GateFacts:
    """Everything there is to know.

    Raises:
        Misuse: the API server does not answer at all.
    """
    api, transport = DoctorClient(connection), PooledTransport(connection)
    clock_offset = api.check_reachable().clock_offset
    try:
        return _Gatherer(api, PagedLists(transport, api.server), request).gather(clock_offset)
    finally:
        transport.close()


class _Gatherer:
    """One gate's."""

    def __init__(self, api: DoctorClient, paged_lists: PagedLists, request: DoctorRequest) -> None:
        self._api = api
        self._paged_lists = paged_lists
        self._request = request
        self._own_configurations = {kind: self._get_configuration(kind) for kind in (MUTATING, VALIDATING)}
        configurations = [
            configuration
            for configuration in self._own_configurations.values()
            if isinstance(configuration, WebhookConfiguration)
        ]
        self._configurations = configurations
        self._namespace = request.namespace or _find_service_namespace(configurations) or DEFAULT_NAMESPACE

    def gather(self, clock_offset: float | None) -> GateFacts:
        deployment = self._api.get_object(
            f"/apis/apps/v1/namespaces/{self._namespace}/deployments/{_OBJECT_NAME}", GateDeployment
        )
        pods = self._list_pods()
        namespaces = self._paged_lists.list_namespaces()
        location = GateLocation(
            self._namespace, self._request.name, _find_secret_name(deployment), self._request.cluster_options
        )
        definition = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{naming.PLURAL}.{naming.GROUP}"
        lease = self._api.get_object(
            f"/apis/coordination.k8s.io/v1/namespaces/{self._namespace}/leases/{LEADER_LEASE_NAME}", LeaderLease
        )
        now = datetime.now(UTC)  # beside the Lease, which is judged by it to the second
        return GateFacts(
            now=now,
            version=version("tallygate"),
            location=location,
            clock_offset=clock_offset,
            mutating=self._own_configurations[MUTATING],
            validating=self._own_configurations[VALIDATING],
            other_configurations=self._list_other_configurations(),
            namespaces=namespaces,
            dry_runs=send_dry_runs(self._api, choose_namespace(self._configurations, namespaces)),
            secret=self._api.get_object(
                f"/api/v1/namespaces/{self._namespace}/secrets/{location.secret_name}", TlsSecret
            ),
            served_certificate=_fetch_served_certificate(self._configurations),
            deployment=deployment,
            disruption_budgets=self._api.list_objects(
                f"/apis/policy/v1/namespaces/{self._namespace}/poddisruptionbudgets", GateDisruptionBudget
            ),
            pods=pods,
            replicas=self._probe_replicas(pods),
            permissions=self._review_permissions(),
            ledger_definition=self._api.get_object(definition, CustomResourceDefinition),
            lease=lease,
            quotas=self._paged_lists.list_quotas(),
            cap_limits=self._paged_lists.list_cap_limits(self._request.caps, namespaces),
            opaque_name_users=self._paged_lists.list_opaque_name_users(),
        )

    def _get_configuration(self, kind: str) -> WebhookConfiguration | Unavailable | None:
        return self._api.get_object(f"{_CONFIGURATIONS_PATH}/{kind}s/{self._request.name}", WebhookConfiguration)

    def _list_other_configurations(self) -> tuple[WebhookConfiguration, ...] | Unavailable:
        configurations = self._api.list_objects(f"{_CONFIGURATIONS_PATH}/{MUTATING}s", WebhookConfiguration)
        return (
            configurations
            if isinstance(configurations, Unavailable)
            else tuple(configuration for configuration in configurations if configuration.name != self._request.name)
        )

    def _list_pods(self) -> tuple[GatePod, ...] | Unavailable:
        query = {"labelSelector": _SELECTOR, "limit": f"{_MAX_PODS}"}
        return self._api.list_objects(f"/api/v1/namespaces/{self._namespace}/pods", GatePod, query)

    def _probe_replicas(self, pods: tuple[GatePod, ...] | Unavailable) -> tuple[Replica, ...] | Unavailable:
        if self._request.monitors:
            return tuple(watching.probe_monitors(self._request.monitors))
        if isinstance(pods, Unavailable):
            return pods
        if not pods and any(
            each.client_config.url for configuration in self._configurations for each in configuration.webhooks
        ):
            return Unavailable("the gate is called by URL and runs elsewhere; name its monitor port by --monitor URL")
        return tuple(watching.probe_pods(self._api, track("asking replicas", pods)))

    def _review_permissions(self) -> tuple[PermissionResult, ...] | Unavailable:
        account = self._api.get_object(
            f"/api/v1/namespaces/{self._namespace}/serviceaccounts/{_OBJECT_NAME}", ServiceAccount
        )
        if account is None:
            return Unavailable(f"there is no ServiceAccount {self._namespace}/{_OBJECT_NAME}")
        return review_permissions(self._api, self._namespace, _OBJECT_NAME, track("asking for rights", PERMISSIONS))


def _find_service_namespace(configurations: Sequence[WebhookConfiguration]) -> str:
    """The namespace of the Service by which the gate is called; empty where it is not called so."""
    services = (webhook.client_config.service for configuration in configurations for webhook in configuration.webhooks)
    return next((service.namespace for service in services if service), "")


def _find_secret_name(deployment: GateDeployment | Unavailable | None) -> str:
    """The Secret that the gate serves with: what it is started with, else what it mounts."""
    if not isinstance(deployment, GateDeployment):
        return DEFAULT_SECRET
    secret_arguments = [
        argument.rpartition("/")[2] for argument in deployment.arguments if argument.startswith("--tls-secret=")
    ]
    mounted = [each.secret.secret_name for each in deployment.spec.template.spec.volumes if each.secret]
    return next(iter((*secret_arguments, *mounted)), DEFAULT_SECRET)


def _fetch_served_certificate(configurations: Sequence[WebhookConfiguration]) -> ServedCertificate | Unavailable | None:
    clients = [webhook.client_config for configuration in configurations for webhook in configuration.webhooks]
    urls = [each.url for each in clients if each.url]
    return shown_at(urls[0], {each.ca_bundle for each in clients}) if urls else None
