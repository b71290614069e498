"""The facts about a gate and its cluster at one time; a fact that could not be read is `Unavailable`."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from tallygate.accounting.amounts import Amounts
from tallygate.admission.self_registration import is_left_to_gate
from tallygate.admission.workload_resources import WorkloadResource, find_resource
from tallygate.backstop.compiled_objects import CompiledObject
from tallygate.cli.doctor import api_types
from tallygate.cli.doctor.permissions import DEFAULT_SECRET, Feature, Permission, parse_features
from tallygate.objects.admission_registration import WebhookConfiguration
from tallygate.objects.core import ResourceQuota
from tallygate.policy.known_kinds import KNOWN_KINDS
from tallygate.policy.limit_annotations import LimitRecords
from tallygate.policy.model import PolicySet
from tallygate.policy.parse import ParseResult
from tallygate.policy.workload_kinds import WorkloadKind

MUTATING, VALIDATING = "mutatingwebhookconfiguration", "validatingwebhookconfiguration"


@dataclass(frozen=True, slots=True)
class Unavailable:
    """A fact that could not be read, and the reason."""

    reason: str


class NotRead(Unavailable):
    """A fact that was not asked for; the reason is what it needs."""


@dataclass(frozen=True, slots=True)
class GateLocation:
    """The names of the gate's objects and the options for the cluster.

    `secret_name` is the name of the Secret with its serving certificate, `service_account` that of the ServiceAccount
    of its pods.
    `options` are appended to kubectl and tallygate commands.
    """

    namespace: str
    secret_name: str = DEFAULT_SECRET
    options: tuple[str, ...] = ()
    service_account: str = "tallygate"

    @property
    def impersonation(self) -> str:
        """The option of kubectl that makes a request as the gate's ServiceAccount."""
        return f"--as=system:serviceaccount:{self.namespace}:{self.service_account}"


class DryRun(NamedTuple):
    """A pod that was sent as a dry run, and the response."""

    pod: str
    namespace: str
    status: int
    message: str


class ServedCertificate(NamedTuple):
    """The certificate (PEM) that a gate serves, and the trust failure for each CA bundle."""

    certificate: bytes
    trust_failures: Mapping[bytes, str]


class MetricSample(NamedTuple):
    """One sample of `/metrics`."""

    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class ReplicaMetrics:
    """The samples of a replica's `/metrics`, by metric name."""

    samples: Mapping[str, tuple[MetricSample, ...]]

    def list_samples(self, name: str) -> tuple[MetricSample, ...]:
        """Return the samples of a metric; `name` is without `tallygate_`."""
        return self.samples.get(f"tallygate_{name}", ())

    def get_value(self, name: str) -> float | None:
        """Return the value of a metric without labels; None if the replica does not report it."""
        return next((sample.value for sample in self.list_samples(name)), None)


@dataclass(frozen=True, slots=True)
class Replica:
    """One replica: its `/readyz`, its `/metrics`, and the seconds by which its clock is ahead of the local one."""

    name: str
    readiness: Mapping[str, Any] | Unavailable
    metrics: ReplicaMetrics | Unavailable
    clock_offset: float | None = None

    def list_checks(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield the checks of `/readyz` with their names; nothing if it could not be read."""
        checks = {} if isinstance(self.readiness, Unavailable) else self.readiness.get("checks")
        for name, detail in (checks if isinstance(checks, dict) else {}).items():
            yield str(name), detail if isinstance(detail, dict) else {}

    def find_check(self, name: str) -> Mapping[str, Any] | None:
        """Return one check of `/readyz`; None if it is missing."""
        return dict(self.list_checks()).get(name)


class MountedConfigMap(NamedTuple):
    """A ConfigMap that the gate mounts as policies: `changed_at` is the time of its last change, None if unknown."""

    name: str
    is_labelled: bool = True
    changed_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class StoredPolicies:
    """The ConfigMaps that the gate mounts as policies, and the policies in them; a file is `configmap/NAME/KEY`."""

    config_maps: tuple[MountedConfigMap, ...] = ()
    parsed: ParseResult = field(default_factory=lambda: ParseResult(PolicySet(), ()))


class PermissionResult(NamedTuple):
    """A permission that the gate needs, and whether it is granted."""

    permission: Permission
    allowed: bool


class CapLimits(NamedTuple):
    """The hard limits of a cap in a namespace; `counts_all_pods`: the cap is known to have no pod filter."""

    cap: str
    namespace: str
    hard: Amounts
    counts_all_pods: bool


class OpaqueNameUser(NamedTuple):
    """An object that uses an opaque name."""

    kind: str
    namespace: str
    name: str
    resource: str


class PodGroup(NamedTuple):
    """Pods of a namespace that have not ended and request the same resources, and the JSON of one with amounts of 1."""

    namespace: str
    content: Mapping[str, Any]
    pods: int


class ServedKind(NamedTuple):
    """A known kind of another project in all its served versions, with whether its objects are in namespaces."""

    kind: WorkloadKind
    versions: Mapping[str, bool]

    def __str__(self) -> str:
        """Return the kind with its group."""
        return f"{self.kind.kind} of {self.kind.group}"

    @property
    def resource(self) -> WorkloadResource | None:
        """The resource for which the gate registers; None if no served version is read."""
        served = {(self.kind.group, version, self.kind.resource): each for version, each in self.versions.items()}
        return find_resource(self.kind, served)


class UnreadKind(NamedTuple):
    """A kind with a pod template at the path `field` that is not read."""

    group: str
    kind: str
    field: str


@dataclass(frozen=True, slots=True)
class WorkloadFacts:
    """The kinds of other projects: the `known` ones, those of them that are served, and others with pod templates."""

    known: tuple[WorkloadKind, ...] = KNOWN_KINDS
    served: tuple[ServedKind, ...] | Unavailable = ()
    unread: tuple[UnreadKind, ...] | Unavailable = ()


@dataclass(frozen=True, slots=True)
class GateFacts:
    """The gathered facts.

    `now` is the local time, `clock_offset` the seconds by which the API server's clock is ahead of it.
    `version` is the version of this tallygate.
    `served_certificate` is the certificate that the gate serves; None if the one in its Secret stands for it.
    `policies` are the given ones, else those that the gate mounts: `stored_policies`. `labelled_config_maps` are the
    names of the ConfigMaps in its namespace with the label of policies.
    `device_classes` has the extended resource of each class of devices, empty if it has none. `published_devices` is
    the number of devices in ResourceSlices, None if no cap needs them. `limit_records` are the annotations that set
    limits as gates admitted them. `compiled_objects` are those of `tallygate compile` that were applied.
    """

    now: datetime
    version: str
    location: GateLocation
    clock_offset: float | None
    mutating: WebhookConfiguration | Unavailable | None
    validating: WebhookConfiguration | Unavailable | None
    other_configurations: tuple[WebhookConfiguration, ...] | Unavailable
    namespaces: tuple[api_types.LabelledNamespace, ...] | Unavailable
    dry_runs: tuple[DryRun, ...] | Unavailable
    secret: api_types.TlsSecret | Unavailable | None
    served_certificate: ServedCertificate | Unavailable | None
    deployment: api_types.GateDeployment | Unavailable | None
    disruption_budgets: tuple[api_types.GateDisruptionBudget, ...] | Unavailable
    pods: tuple[api_types.GatePod, ...] | Unavailable
    replicas: tuple[Replica, ...] | Unavailable
    permissions: tuple[PermissionResult, ...] | Unavailable
    ledger_definition: api_types.CustomResourceDefinition | Unavailable | None
    lease: api_types.LeaderLease | Unavailable | None
    quotas: tuple[ResourceQuota, ...] | Unavailable
    cap_limits: tuple[CapLimits, ...] | Unavailable
    policies: PolicySet | Unavailable
    opaque_name_users: tuple[OpaqueNameUser, ...] | Unavailable = field(default=())
    pod_groups: tuple[PodGroup, ...] | Unavailable = ()
    device_classes: Mapping[str, str] | Unavailable = field(default_factory=dict)
    published_devices: int | Unavailable | None = None
    limit_records: LimitRecords | Unavailable = field(default_factory=dict)
    network_policies: tuple[api_types.GateNetworkPolicy, ...] | Unavailable = ()
    workloads: WorkloadFacts = WorkloadFacts()
    compiled_objects: tuple[CompiledObject, ...] | Unavailable = ()
    stored_policies: StoredPolicies | Unavailable = field(default_factory=StoredPolicies)
    labelled_config_maps: tuple[str, ...] | Unavailable = ()

    def list_configurations(self) -> Iterator[tuple[str, WebhookConfiguration]]:
        """Yield the gate's configurations that exist, with the kind as kubectl names it."""
        if isinstance(self.mutating, WebhookConfiguration):
            yield MUTATING, self.mutating
        if isinstance(self.validating, WebhookConfiguration):
            yield VALIDATING, self.validating

    @property
    def registration_problem(self) -> str:
        """The reason that no webhook of the gate is known; an empty string if a configuration has webhooks."""
        configurations = [configuration for _, configuration in self.list_configurations()]
        if configurations and all(map(is_unregistered, configurations)):
            return "the gate has not registered itself yet"
        if configurations:
            return ""
        reason = next(
            (
                configuration.reason
                for configuration in (self.mutating, self.validating)
                if isinstance(configuration, Unavailable)
            ),
            "",
        )
        return f"the registration cannot be read: {reason}" if reason else "nothing of the gate is registered"

    @property
    def is_called_by_url(self) -> bool:
        """Whether the gate is called by URL and not by a Service of this cluster."""
        return any(
            webhook.client_config.url
            for _, configuration in self.list_configurations()
            for webhook in configuration.webhooks
        )


def is_unregistered(configuration: WebhookConfiguration) -> bool:
    """Return whether a configuration is left to the gate, which has written no webhooks yet."""
    return not configuration.webhooks and is_left_to_gate(configuration)


def detect_features(facts: GateFacts) -> frozenset[Feature] | None:
    """Return the enabled features from the Deployment's arguments, else from the readiness checks of the replicas.

    Return None if neither could be read.
    """
    if isinstance(facts.deployment, api_types.GateDeployment):
        return parse_features(facts.deployment.arguments)
    if isinstance(facts.replicas, Unavailable):
        return None
    check_names = [{name for name, _ in replica.list_checks()} for replica in facts.replicas]
    if not any(check_names):
        return None
    features_by_check = {
        "watches": Feature.CLUSTER,
        "leader-election": Feature.CLUSTER_LEDGERS,
        "events": Feature.EVENTS,
        "audit": Feature.AUDIT,
        "node-resources": Feature.PUBLICATION,
        "backstop": Feature.BACKSTOP,
        "cap-usages": Feature.USAGE,
    }
    return frozenset(
        feature for name, feature in features_by_check.items() if any(name in checks for checks in check_names)
    )
