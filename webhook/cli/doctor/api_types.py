"""What is read of a cluster about the gate: typed records that name only the fields that a check needs.

As in k8s.io/api admissionregistration/v1, apps/v1, policy/v1, coordination/v1 and apiextensions/v1, v1.36, with the
defaults that an API server fills in.
"""

from typing import Any

import msgspec

from webhook.objects.meta import LabelSelector, ObjectMeta, StringMap


class WebhookRule(msgspec.Struct, rename="camel", frozen=True):
    """Which requests a webhook is asked about (RuleWithOperations)."""

    api_groups: tuple[str, ...] = ()
    api_versions: tuple[str, ...] = ()
    operations: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    scope: str = "*"


class _ServiceReference(msgspec.Struct, rename="camel", frozen=True):
    """A Service of the cluster, and the path behind it."""

    namespace: str
    name: str
    path: str = ""


class _WebhookClientConfig(msgspec.Struct, rename="camel", frozen=True):
    """How an API server reaches a webhook, and whom it trusts there: PEM, none of its own where that is empty."""

    url: str | None = None
    service: _ServiceReference | None = None
    ca_bundle: bytes = b""


class MatchCondition(msgspec.Struct, rename="camel", frozen=True):
    """A CEL expression without which nobody is asked."""

    name: str = ""
    expression: str = ""


class Webhook(msgspec.Struct, rename="camel", frozen=True):
    """One webhook of a configuration, of either kind."""

    name: str
    client_config: _WebhookClientConfig = _WebhookClientConfig()
    rules: tuple[WebhookRule, ...] = ()
    failure_policy: str = "Fail"
    match_policy: str = "Equivalent"
    namespace_selector: LabelSelector | None = None
    object_selector: LabelSelector | None = None
    timeout_seconds: int = 10
    reinvocation_policy: str = "Never"
    match_conditions: tuple[MatchCondition, ...] = ()


class WebhookConfiguration(msgspec.Struct, rename="camel", frozen=True):
    """A MutatingWebhookConfiguration or a ValidatingWebhookConfiguration."""

    metadata: ObjectMeta
    webhooks: tuple[Webhook, ...] = ()

    @property
    def name(self) -> str:
        """What it is called."""
        return self.metadata.name or ""


class _GateContainerPort(msgspec.Struct, rename="camel", frozen=True):
    """A port by its name."""

    name: str = ""
    container_port: int = 0


class _GateContainer(msgspec.Struct, rename="camel", frozen=True):
    """What runs, by which arguments."""

    name: str = ""
    image: str = ""
    args: tuple[str, ...] = ()
    ports: tuple[_GateContainerPort, ...] = ()


class _SecretVolume(msgspec.Struct, rename="camel", frozen=True):
    """A Secret that is mounted."""

    secret_name: str = ""


class _GateVolume(msgspec.Struct, rename="camel", frozen=True):
    """A volume, as far as it is a Secret."""

    secret: _SecretVolume | None = None


class _GatePodSpec(msgspec.Struct, rename="camel", frozen=True):
    """What a pod of the gate is made of."""

    containers: tuple[_GateContainer, ...] = ()
    volumes: tuple[_GateVolume, ...] = ()
    service_account_name: str = "default"


class _ObjectCondition(msgspec.Struct, rename="camel", frozen=True):
    """One condition of a pod."""

    type: str
    status: str


class _GatePodStatus(msgspec.Struct, rename="camel", frozen=True):
    """How a pod of the gate is."""

    phase: str = ""
    conditions: tuple[_ObjectCondition, ...] = ()


class GatePod(msgspec.Struct, rename="camel", frozen=True):
    """A pod of the gate."""

    metadata: ObjectMeta
    spec: _GatePodSpec = _GatePodSpec()
    status: _GatePodStatus = _GatePodStatus()

    @property
    def name(self) -> str:
        """What it is called."""
        return self.metadata.name or ""

    @property
    def is_ready(self) -> bool:
        """Whether its Service sends it requests."""
        return any(condition.type == "Ready" and condition.status == "True" for condition in self.status.conditions)


class _GatePodTemplate(msgspec.Struct, rename="camel", frozen=True):
    """What a Deployment makes pods from."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _GatePodSpec = _GatePodSpec()


class _GateDeploymentSpec(msgspec.Struct, rename="camel", frozen=True):
    """What a Deployment is to be."""

    replicas: int = 1
    template: _GatePodTemplate = _GatePodTemplate()


class _GateDeploymentStatus(msgspec.Struct, rename="camel", frozen=True):
    """What a Deployment is."""

    ready_replicas: int = 0


class GateDeployment(msgspec.Struct, rename="camel", frozen=True):
    """The gate's Deployment."""

    metadata: ObjectMeta
    spec: _GateDeploymentSpec = _GateDeploymentSpec()
    status: _GateDeploymentStatus = _GateDeploymentStatus()

    @property
    def arguments(self) -> tuple[str, ...]:
        """What the gate is started with: its container is called as the Deployment is, and others may be beside it."""
        containers = self.spec.template.spec.containers
        own_containers = (container for container in containers if container.name == self.metadata.name)
        return next(iter((*own_containers, *containers)), _GateContainer()).args


class _GateDisruptionBudgetSpec(msgspec.Struct, rename="camel", frozen=True):
    """Which pods a PodDisruptionBudget holds."""

    selector: LabelSelector | None = None


class _GateDisruptionBudgetStatus(msgspec.Struct, rename="camel", frozen=True):
    """How many of them may be ended now."""

    disruptions_allowed: int = 0
    expected_pods: int = 0


class GateDisruptionBudget(msgspec.Struct, rename="camel", frozen=True):
    """A PodDisruptionBudget."""

    metadata: ObjectMeta
    spec: _GateDisruptionBudgetSpec = _GateDisruptionBudgetSpec()
    status: _GateDisruptionBudgetStatus = _GateDisruptionBudgetStatus()


class ResourceDefinitionVersion(msgspec.Struct, rename="camel", frozen=True):
    """One version of a CustomResourceDefinition."""

    name: str
    served: bool = False
    storage: bool = False
    schema: dict[str, Any] = {}


class _ResourceDefinitionSpec(msgspec.Struct, rename="camel", frozen=True):
    """Its versions."""

    versions: tuple[ResourceDefinitionVersion, ...] = ()


class _ResourceDefinitionStatus(msgspec.Struct, rename="camel", frozen=True):
    """In which of them objects are stored, and what the API server says of it; both are null at first.

    As in apiextensions.k8s.io/v1 (k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1/types.go, v1.36).
    """

    stored_versions: tuple[str, ...] | None = None
    conditions: tuple[_ObjectCondition, ...] | None = None


class CustomResourceDefinition(msgspec.Struct, rename="camel", frozen=True):
    """A CustomResourceDefinition."""

    metadata: ObjectMeta
    spec: _ResourceDefinitionSpec = _ResourceDefinitionSpec()
    status: _ResourceDefinitionStatus = _ResourceDefinitionStatus()


class _LeaderLeaseSpec(msgspec.Struct, rename="camel", frozen=True):
    """Who holds a Lease, and when he said so last, by his own clock."""

    holder_identity: str | None = None
    renew_time: str | None = None


class LeaderLease(msgspec.Struct, rename="camel", frozen=True):
    """A Lease."""

    metadata: ObjectMeta
    spec: _LeaderLeaseSpec = _LeaderLeaseSpec()


class _TlsSecretData(msgspec.Struct, rename="camel", frozen=True):
    """Of a TLS Secret what is public: its key is never read into anything that is kept."""

    certificate: bytes = msgspec.field(name="tls.crt", default=b"")
    ca_bundle: bytes = msgspec.field(name="ca.crt", default=b"")


class TlsSecret(msgspec.Struct, rename="camel", frozen=True):
    """A TLS Secret without its key."""

    metadata: ObjectMeta
    data: _TlsSecretData = _TlsSecretData()


class ServiceAccount(msgspec.Struct, rename="camel", frozen=True):
    """A ServiceAccount, as far as that it is there."""

    metadata: ObjectMeta


class LabelledNamespace(msgspec.Struct, frozen=True):
    """A namespace: its name and its labels."""

    name: str
    labels: StringMap
