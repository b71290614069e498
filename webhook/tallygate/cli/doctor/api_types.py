"""Typed records of the objects of a cluster that concern the gate, with the fields that the checks need.

The types follow k8s.io/api apps/v1, policy/v1, coordination/v1 and apiextensions/v1, v1.36,
with the defaults that an API server fills in.
"""

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

import msgspec

from tallygate.objects.meta import LabelSelector, ObjectMeta, StringMap
from tallygate.policy.limit_annotations import NO_TEXTS


class _GateContainerPort(msgspec.Struct, rename="camel", frozen=True):
    """A named container port."""

    name: str = ""
    container_port: int = 0


class _VolumeMount(msgspec.Struct, rename="camel", frozen=True):
    """The folder at which a container has a volume, or a part of it."""

    name: str = ""
    mount_path: str = ""
    sub_path: str = ""
    sub_path_expr: str = ""


class _GateContainer(msgspec.Struct, rename="camel", frozen=True):
    """A container with its image, arguments, ports and mounted volumes."""

    name: str = ""
    image: str = ""
    args: tuple[str, ...] = ()
    ports: tuple[_GateContainerPort, ...] = ()
    volume_mounts: tuple[_VolumeMount, ...] = ()


class _SecretVolume(msgspec.Struct, rename="camel", frozen=True):
    """A volume that mounts a Secret."""

    secret_name: str = ""


class _ConfigMapVolume(msgspec.Struct, rename="camel", frozen=True):
    """A volume that mounts a ConfigMap; `items` are some of its keys, under other names."""

    name: str = ""
    items: tuple[dict[str, Any], ...] = ()


class _GateVolume(msgspec.Struct, rename="camel", frozen=True):
    """A volume; other sources than a Secret and a ConfigMap are not read."""

    name: str = ""
    secret: _SecretVolume | None = None
    config_map: _ConfigMapVolume | None = None


class _GatePodSpec(msgspec.Struct, rename="camel", frozen=True):
    """The spec of a pod of the gate."""

    containers: tuple[_GateContainer, ...] = ()
    volumes: tuple[_GateVolume, ...] = ()
    service_account_name: str = "default"


class _ObjectCondition(msgspec.Struct, rename="camel", frozen=True):
    """One condition of an object."""

    type: str
    status: str


class _GatePodStatus(msgspec.Struct, rename="camel", frozen=True):
    """The phase, the conditions and the address of a pod of the gate."""

    phase: str = ""
    conditions: tuple[_ObjectCondition, ...] = ()
    pod_ip: str = msgspec.field(name="podIP", default="")


class GatePod(msgspec.Struct, rename="camel", frozen=True):
    """A pod of the gate."""

    metadata: ObjectMeta
    spec: _GatePodSpec = _GatePodSpec()
    status: _GatePodStatus = _GatePodStatus()

    @property
    def name(self) -> str:
        """The name of the pod."""
        return self.metadata.name or ""

    @property
    def is_ready(self) -> bool:
        """Whether the pod has the condition Ready, so that its Service sends it requests."""
        return any(condition.type == "Ready" and condition.status == "True" for condition in self.status.conditions)

    def find_port(self, name: str, default: int) -> int:
        """Return the number of a named port of a container."""
        ports = (port for container in self.spec.containers for port in container.ports)
        return next((port.container_port for port in ports if port.name == name), default)


class _GatePodTemplate(msgspec.Struct, rename="camel", frozen=True):
    """The pod template of a Deployment."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _GatePodSpec = _GatePodSpec()


class _GateDeploymentSpec(msgspec.Struct, rename="camel", frozen=True):
    """The desired state of a Deployment."""

    replicas: int = 1
    template: _GatePodTemplate = _GatePodTemplate()


class _GateDeploymentStatus(msgspec.Struct, rename="camel", frozen=True):
    """The observed state of a Deployment."""

    ready_replicas: int = 0


class GateDeployment(msgspec.Struct, rename="camel", frozen=True):
    """The gate's Deployment."""

    metadata: ObjectMeta
    spec: _GateDeploymentSpec = _GateDeploymentSpec()
    status: _GateDeploymentStatus = _GateDeploymentStatus()

    @property
    def _container(self) -> _GateContainer:
        """The gate's container, named as the Deployment; else the first container."""
        containers = self.spec.template.spec.containers
        own_containers = (container for container in containers if container.name == self.metadata.name)
        return next(iter((*own_containers, *containers)), _GateContainer())

    @property
    def arguments(self) -> tuple[str, ...]:
        """The arguments of the gate's container."""
        return self._container.args

    def find_config_map(self, path: PurePosixPath) -> tuple[str, PurePosixPath] | None:
        """Return the ConfigMap that the gate's container has at a path, and its folder.

        Return None if it has none there, or only some keys of one.
        """
        names = {
            volume.name: volume.config_map.name
            for volume in self.spec.template.spec.volumes
            if volume.config_map is not None and not volume.config_map.items
        }
        folders = {
            PurePosixPath(mount.mount_path): mount.name
            for mount in self._container.volume_mounts
            if not (mount.sub_path or mount.sub_path_expr)
        }
        folder = next((each for each in (path, path.parent) if each in folders), None)
        name = names.get(folders[folder]) if folder is not None else None
        return None if folder is None or name is None else (name, folder)


class _GateDisruptionBudgetSpec(msgspec.Struct, rename="camel", frozen=True):
    """The selector of the pods of a PodDisruptionBudget."""

    selector: LabelSelector | None = None


class _GateDisruptionBudgetStatus(msgspec.Struct, rename="camel", frozen=True):
    """The number of allowed disruptions and of expected pods."""

    disruptions_allowed: int = 0
    expected_pods: int = 0


class GateDisruptionBudget(msgspec.Struct, rename="camel", frozen=True):
    """A PodDisruptionBudget."""

    metadata: ObjectMeta
    spec: _GateDisruptionBudgetSpec = _GateDisruptionBudgetSpec()
    status: _GateDisruptionBudgetStatus = _GateDisruptionBudgetStatus()


class _NetworkPort(msgspec.Struct, frozen=True):
    """A port by number or name; None means every port."""

    port: int | str | None = None


class _IngressRule(msgspec.Struct, frozen=True):
    """The ports that a rule opens (none: all) to these senders (none: to every one)."""

    ports: tuple[_NetworkPort, ...] = ()
    senders: tuple[dict[str, Any], ...] = msgspec.field(name="from", default=())


class _GateNetworkPolicySpec(msgspec.Struct, rename="camel", frozen=True):
    """The selected pods of a NetworkPolicy and the directions that it limits."""

    pod_selector: LabelSelector = LabelSelector()
    policy_types: tuple[str, ...] = ()
    ingress: tuple[_IngressRule, ...] = ()


class GateNetworkPolicy(msgspec.Struct, rename="camel", frozen=True):
    """A NetworkPolicy (networking.k8s.io/v1)."""

    metadata: ObjectMeta
    spec: _GateNetworkPolicySpec = _GateNetworkPolicySpec()


class ResourceDefinitionVersion(msgspec.Struct, rename="camel", frozen=True):
    """One version of a CustomResourceDefinition."""

    name: str
    served: bool = False
    storage: bool = False
    schema: dict[str, Any] = {}


class _ResourceDefinitionSpec(msgspec.Struct, rename="camel", frozen=True):
    """The versions of a CustomResourceDefinition."""

    versions: tuple[ResourceDefinitionVersion, ...] = ()


class _ResourceDefinitionStatus(msgspec.Struct, rename="camel", frozen=True):
    """The stored versions and the conditions of a CustomResourceDefinition; both are null at first.

    The type follows apiextensions.k8s.io/v1 (k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1/types.go, v1.36).
    """

    stored_versions: tuple[str, ...] | None = None
    conditions: tuple[_ObjectCondition, ...] | None = None


class CustomResourceDefinition(msgspec.Struct, rename="camel", frozen=True):
    """A CustomResourceDefinition."""

    metadata: ObjectMeta
    spec: _ResourceDefinitionSpec = _ResourceDefinitionSpec()
    status: _ResourceDefinitionStatus = _ResourceDefinitionStatus()


class _LeaderLeaseSpec(msgspec.Struct, rename="camel", frozen=True):
    """The holder of a Lease and its last renew time, by the clock of the holder."""

    holder_identity: str | None = None
    renew_time: str | None = None


class LeaderLease(msgspec.Struct, rename="camel", frozen=True):
    """A Lease."""

    metadata: ObjectMeta
    spec: _LeaderLeaseSpec = _LeaderLeaseSpec()


class _TlsSecretData(msgspec.Struct, rename="camel", frozen=True):
    """The public part of a TLS Secret; the private key is never decoded."""

    certificate: bytes = msgspec.field(name="tls.crt", default=b"")
    ca_bundle: bytes = msgspec.field(name="ca.crt", default=b"")


class TlsSecret(msgspec.Struct, rename="camel", frozen=True):
    """A TLS Secret without its key."""

    metadata: ObjectMeta
    data: _TlsSecretData = _TlsSecretData()


class ServiceAccount(msgspec.Struct, rename="camel", frozen=True):
    """A ServiceAccount; only its existence matters."""

    metadata: ObjectMeta


class LabelledNamespace(msgspec.Struct, frozen=True):
    """A namespace with its labels, and the annotations that set limits, by the name of the cap."""

    name: str
    labels: StringMap
    limit_texts: Mapping[str, str] = NO_TEXTS
    uid: str = ""
