"""What is read of a cluster about the gate: typed records that name only the fields that a check needs.

As in k8s.io/api admissionregistration/v1, apps/v1, policy/v1, coordination/v1 and apiextensions/v1, v1.36, with the
defaults that an API server fills in.
"""

from typing import Any

import msgspec

from webhook.objects.meta import LabelSelector, ObjectMeta, StringMap


class Rule(msgspec.Struct, rename="camel", frozen=True):
    """Which requests a webhook is asked about (RuleWithOperations)."""

    api_groups: tuple[str, ...] = ()
    api_versions: tuple[str, ...] = ()
    operations: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    scope: str = "*"


class ServiceReference(msgspec.Struct, rename="camel", frozen=True):
    """A Service of the cluster, and the path behind it."""

    namespace: str
    name: str
    path: str = ""


class ClientConfig(msgspec.Struct, rename="camel", frozen=True):
    """How an API server reaches a webhook, and whom it trusts there: PEM, none of its own where that is empty."""

    url: str | None = None
    service: ServiceReference | None = None
    ca_bundle: bytes = b""


class Condition(msgspec.Struct, rename="camel", frozen=True):
    """A CEL expression without which nobody is asked."""

    name: str = ""
    expression: str = ""


class Webhook(msgspec.Struct, rename="camel", frozen=True):
    """One webhook of a configuration, of either kind."""

    name: str
    client_config: ClientConfig = ClientConfig()
    rules: tuple[Rule, ...] = ()
    failure_policy: str = "Fail"
    match_policy: str = "Equivalent"
    namespace_selector: LabelSelector | None = None
    object_selector: LabelSelector | None = None
    timeout_seconds: int = 10
    reinvocation_policy: str = "Never"
    match_conditions: tuple[Condition, ...] = ()


class Configuration(msgspec.Struct, rename="camel", frozen=True):
    """A MutatingWebhookConfiguration or a ValidatingWebhookConfiguration."""

    metadata: ObjectMeta
    webhooks: tuple[Webhook, ...] = ()

    @property
    def name(self) -> str:
        """What it is called."""
        return self.metadata.name or ""


class ContainerPort(msgspec.Struct, rename="camel", frozen=True):
    """A port by its name."""

    name: str = ""
    container_port: int = 0


class Container(msgspec.Struct, rename="camel", frozen=True):
    """What runs, by which arguments."""

    name: str = ""
    image: str = ""
    args: tuple[str, ...] = ()
    ports: tuple[ContainerPort, ...] = ()


class SecretVolume(msgspec.Struct, rename="camel", frozen=True):
    """A Secret that is mounted."""

    secret_name: str = ""


class Volume(msgspec.Struct, rename="camel", frozen=True):
    """A volume, as far as it is a Secret."""

    secret: SecretVolume | None = None


class PodSpec(msgspec.Struct, rename="camel", frozen=True):
    """What a pod of the gate is made of."""

    containers: tuple[Container, ...] = ()
    volumes: tuple[Volume, ...] = ()
    service_account_name: str = "default"


class PodCondition(msgspec.Struct, rename="camel", frozen=True):
    """One condition of a pod."""

    type: str
    status: str


class PodStatus(msgspec.Struct, rename="camel", frozen=True):
    """How a pod of the gate is."""

    phase: str = ""
    conditions: tuple[PodCondition, ...] = ()


class GatePod(msgspec.Struct, rename="camel", frozen=True):
    """A pod of the gate."""

    metadata: ObjectMeta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def name(self) -> str:
        """What it is called."""
        return self.metadata.name or ""

    @property
    def is_ready(self) -> bool:
        """Whether its Service sends it requests."""
        return any(each.type == "Ready" and each.status == "True" for each in self.status.conditions)


class Template(msgspec.Struct, rename="camel", frozen=True):
    """What a Deployment makes pods from."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()


class DeploymentSpec(msgspec.Struct, rename="camel", frozen=True):
    """What a Deployment is to be."""

    replicas: int = 1
    template: Template = Template()


class DeploymentStatus(msgspec.Struct, rename="camel", frozen=True):
    """What a Deployment is."""

    ready_replicas: int = 0


class Deployment(msgspec.Struct, rename="camel", frozen=True):
    """The gate's Deployment."""

    metadata: ObjectMeta
    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()

    @property
    def arguments(self) -> tuple[str, ...]:
        """What the gate is started with: its container is called as the Deployment is, and others may be beside it."""
        containers = self.spec.template.spec.containers
        own = (each for each in containers if each.name == self.metadata.name)
        return next(iter((*own, *containers)), Container()).args


class BudgetSpec(msgspec.Struct, rename="camel", frozen=True):
    """Which pods a PodDisruptionBudget holds."""

    selector: LabelSelector | None = None


class BudgetStatus(msgspec.Struct, rename="camel", frozen=True):
    """How many of them may be ended now."""

    disruptions_allowed: int = 0
    expected_pods: int = 0


class Budget(msgspec.Struct, rename="camel", frozen=True):
    """A PodDisruptionBudget."""

    metadata: ObjectMeta
    spec: BudgetSpec = BudgetSpec()
    status: BudgetStatus = BudgetStatus()


class DefinitionVersion(msgspec.Struct, rename="camel", frozen=True):
    """One version of a CustomResourceDefinition."""

    name: str
    served: bool = False
    storage: bool = False
    schema: dict[str, Any] = {}


class DefinitionSpec(msgspec.Struct, rename="camel", frozen=True):
    """Its versions."""

    versions: tuple[DefinitionVersion, ...] = ()


class DefinitionStatus(msgspec.Struct, rename="camel", frozen=True):
    """In which of them objects are stored, and what the API server says of it; both are null at first.

    As in apiextensions.k8s.io/v1 (k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1/types.go, v1.36).
    """

    stored_versions: tuple[str, ...] | None = None
    conditions: tuple[PodCondition, ...] | None = None


class Definition(msgspec.Struct, rename="camel", frozen=True):
    """A CustomResourceDefinition."""

    metadata: ObjectMeta
    spec: DefinitionSpec = DefinitionSpec()
    status: DefinitionStatus = DefinitionStatus()


class LeaseSpec(msgspec.Struct, rename="camel", frozen=True):
    """Who holds a Lease, and when he said so last, by his own clock."""

    holder_identity: str | None = None
    renew_time: str | None = None


class Lease(msgspec.Struct, rename="camel", frozen=True):
    """A Lease."""

    metadata: ObjectMeta
    spec: LeaseSpec = LeaseSpec()


class SecretData(msgspec.Struct, rename="camel", frozen=True):
    """Of a TLS Secret what is public: its key is never read into anything that is kept."""

    certificate: bytes = msgspec.field(name="tls.crt", default=b"")
    authorities: bytes = msgspec.field(name="ca.crt", default=b"")


class Secret(msgspec.Struct, rename="camel", frozen=True):
    """A TLS Secret without its key."""

    metadata: ObjectMeta
    data: SecretData = SecretData()


class Account(msgspec.Struct, rename="camel", frozen=True):
    """A ServiceAccount, as far as that it is there."""

    metadata: ObjectMeta


class Space(msgspec.Struct, frozen=True):
    """A namespace: its name and its labels."""

    name: str
    labels: StringMap
