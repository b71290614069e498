"""Everything that is known of a gate and its cluster, at one time. What could not be seen says why.

What the gate was started to do, as far as it can be seen.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from webhook.accounting.amounts import Amounts
from webhook.cli.doctor.api_types import (
    CustomResourceDefinition,
    GateDeployment,
    GateDisruptionBudget,
    GatePod,
    LabelledNamespace,
    LeaderLease,
    TlsSecret,
    WebhookConfiguration,
)
from webhook.cli.doctor.permissions import DEFAULT_SECRET, Feature, Permission, parse_features
from webhook.objects.core import ResourceQuota

MUTATING, VALIDATING = "mutatingwebhookconfiguration", "validatingwebhookconfiguration"


@dataclass(frozen=True, slots=True)
class Unavailable:
    """Something that could not be read, and why."""

    reason: str


@dataclass(frozen=True, slots=True)
class GateLocation:
    """What the gate is called here, and how commands name its cluster: `options` go behind kubectl and tallygate.

    `name` is that of its webhook configurations, `secret` that of what it serves with.
    """

    namespace: str
    name: str
    secret_name: str = DEFAULT_SECRET
    options: tuple[str, ...] = ()


class DryRun(NamedTuple):
    """A pod that was sent as a dry run: what was answered to it."""

    pod: str
    namespace: str
    status: int
    message: str


class ServedCertificate(NamedTuple):
    """What a gate that is called by URL shows, as PEM, and why who trusts a bundle would not talk to it, by bundle."""

    certificate: bytes
    trust_failures: Mapping[bytes, str]


class MetricSample(NamedTuple):
    """One series of `/metrics`."""

    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class ReplicaMetrics:
    """What a replica's `/metrics` says, by name."""

    samples: Mapping[str, tuple[MetricSample, ...]]

    def list_samples(self, name: str) -> tuple[MetricSample, ...]:
        """The series of a metric, its name without `tallygate_`."""
        return self.samples.get(f"tallygate_{name}", ())

    def get_value(self, name: str) -> float | None:
        """The value of one without labels; None where it is not told."""
        return next((sample.value for sample in self.list_samples(name)), None)


@dataclass(frozen=True, slots=True)
class Replica:
    """One replica of the gate: its `/readyz`, its `/metrics`, and how far its clock is ahead of ours, in seconds."""

    name: str
    readiness: Mapping[str, Any] | Unavailable
    metrics: ReplicaMetrics | Unavailable
    clock_offset: float | None = None

    def list_checks(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """The checks of `/readyz` by name; none where it could not be read."""
        checks = {} if isinstance(self.readiness, Unavailable) else self.readiness.get("checks")
        for name, detail in (checks if isinstance(checks, dict) else {}).items():
            yield str(name), detail if isinstance(detail, dict) else {}

    def find_check(self, name: str) -> Mapping[str, Any] | None:
        """One of them; None where there is none."""
        return dict(self.list_checks()).get(name)


class PermissionResult(NamedTuple):
    """A right that the gate needs, and whether it has it."""

    permission: Permission
    allowed: bool


class CapLimits(NamedTuple):
    """What a cap allows a namespace: its name, the namespace, and amounts; `whole`, where it counts every pod there."""

    cap: str
    namespace: str
    hard: Amounts
    counts_all_pods: bool


class OpaqueNameUser(NamedTuple):
    """Something that uses an opaque name."""

    kind: str
    namespace: str
    name: str
    resource: str


@dataclass(frozen=True, slots=True)
class GateFacts:
    """What was gathered. `now` is our clock, `ahead` how far the API server's is ahead of it, in seconds.

    `version` is that of the tallygate that asks.
    `served` is what a gate that is called by URL shows; None where it is called by its Service.
    """

    now: datetime
    version: str
    location: GateLocation
    clock_offset: float | None
    mutating: WebhookConfiguration | Unavailable | None
    validating: WebhookConfiguration | Unavailable | None
    other_configurations: tuple[WebhookConfiguration, ...] | Unavailable
    namespaces: tuple[LabelledNamespace, ...] | Unavailable
    dry_runs: tuple[DryRun, ...] | Unavailable
    secret: TlsSecret | Unavailable | None
    served_certificate: ServedCertificate | Unavailable | None
    deployment: GateDeployment | Unavailable | None
    disruption_budgets: tuple[GateDisruptionBudget, ...] | Unavailable
    pods: tuple[GatePod, ...] | Unavailable
    replicas: tuple[Replica, ...] | Unavailable
    permissions: tuple[PermissionResult, ...] | Unavailable
    ledger_definition: CustomResourceDefinition | Unavailable | None
    lease: LeaderLease | Unavailable | None
    quotas: tuple[ResourceQuota, ...] | Unavailable
    cap_limits: tuple[CapLimits, ...] | Unavailable
    opaque_name_users: tuple[OpaqueNameUser, ...] | Unavailable = field(default=())

    def list_configurations(self) -> Iterator[tuple[str, WebhookConfiguration]]:
        """Those of the gate's that are there, by what kubectl calls their kind."""
        if isinstance(self.mutating, WebhookConfiguration):
            yield MUTATING, self.mutating
        if isinstance(self.validating, WebhookConfiguration):
            yield VALIDATING, self.validating

    @property
    def registration_problem(self) -> str:
        """Why nothing can be said of the registration; empty where one of the two is there."""
        if any(self.list_configurations()):
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
        """Whether the gate runs elsewhere than behind a Service of this cluster."""
        return any(
            webhook.client_config.url
            for _, configuration in self.list_configurations()
            for webhook in configuration.webhooks
        )


def detect_features(facts: GateFacts) -> frozenset[Feature] | None:
    """By its Deployment's arguments, else by what its replicas check of themselves; None where neither is seen."""
    if isinstance(facts.deployment, GateDeployment):
        return parse_features(facts.deployment.arguments)
    if isinstance(facts.replicas, Unavailable):
        return None
    check_names = [{name for name, _ in replica.list_checks()} for replica in facts.replicas]
    if not any(check_names):
        return None
    features_by_check = {
        "cluster": Feature.CLUSTER,
        "leases": Feature.CLUSTER_LEDGERS,
        "events": Feature.EVENTS,
        "audit": Feature.AUDIT,
    }
    return frozenset(
        feature for name, feature in features_by_check.items() if any(name in checks for checks in check_names)
    )
