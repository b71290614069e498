"""The policies that the gate mounts: those in the ConfigMaps of its Deployment.

The arguments `--policies` of the gate name files and folders in its containers. A folder in which a ConfigMap is
mounted has one file for each key. Other sources, such as a folder of the image, are not read.
"""

from collections.abc import Sequence
from datetime import datetime
from pathlib import PurePosixPath
from typing import Final

import msgspec

from tallygate.admission.webhook_configuration import CONFIGURATION_NAME, DEFAULT_NAMESPACE
from tallygate.cli.doctor.api_types import GateDeployment
from tallygate.cli.doctor.doctor_client import DoctorClient
from tallygate.cli.doctor.facts import MUTATING, VALIDATING, MountedConfigMap, StoredPolicies, Unavailable
from tallygate.errors import TallygateError
from tallygate.kube.client import ClientConfig
from tallygate.objects.admission_registration import WebhookConfiguration
from tallygate.objects.meta import ObjectMeta, PartialObjectMetadata
from tallygate.policy.lint_findings import Severity
from tallygate.policy.load import load_policies
from tallygate.policy.model import PolicySet
from tallygate.policy.policy_config_maps import LABEL_VALUE, POLICIES_LABEL, PolicyConfigMap

GATE_NAME: Final = "tallygate"
"""The name of the gate's Deployment, of its Service and, by default, of its ServiceAccount."""

CONFIGURATIONS_PATH: Final = "/apis/admissionregistration.k8s.io/v1"
"""The path of the webhook configurations."""

_FLAG = "--policies="
_MAX_CONFIG_MAPS: Final = 50


class _ManagedFields(msgspec.Struct, frozen=True):
    """One writer of an object, with the time of its last write."""

    time: datetime | None = None


class _StoredMetadata(ObjectMeta, rename="camel", frozen=True):
    managed_fields: tuple[_ManagedFields, ...] | None = None


class _StoredConfigMap(PolicyConfigMap, rename="camel", frozen=True):
    """A ConfigMap with the times of its writes."""

    metadata: _StoredMetadata = _StoredMetadata()

    @property
    def changed_at(self) -> datetime | None:
        return max((fields.time for fields in self.metadata.managed_fields or () if fields.time), default=None)


class _UnreadableError(TallygateError):
    """The policies of a gate cannot be read; the text has the reason."""


def read_stored_policies(
    api: DoctorClient, namespace: str, deployment: GateDeployment | Unavailable | None
) -> StoredPolicies | Unavailable:
    """Return the ConfigMaps that a Deployment in a namespace mounts as policies, with the policies in them."""
    if isinstance(deployment, Unavailable):
        return Unavailable(f"the gate's Deployment cannot be read: {deployment.reason}")
    if deployment is None:
        return Unavailable(f"there is no Deployment of the gate in {namespace}")
    paths = [argument.removeprefix(_FLAG) for argument in deployment.arguments if argument.startswith(_FLAG)]
    if not paths:
        return Unavailable("the arguments of the gate's Deployment have no --policies")
    config_maps: dict[str, MountedConfigMap] = {}
    files: dict[str, bytes] = {}
    try:
        for path in map(PurePosixPath, paths):
            name, folder, found = _read_config_map(api, namespace, deployment, path)
            config_maps[name] = MountedConfigMap(name, found.is_labelled, found.changed_at)
            contents = found.list_files() if folder == path else found.list_contents()
            files |= {
                f"configmap/{name}/{key}": content
                for key, content in contents.items()
                if folder == path or folder / key == path
            }
    except _UnreadableError as error:
        return Unavailable(str(error))
    parsed = load_policies((), extra_files=tuple(files.items()), are_extra_named=False)
    return StoredPolicies(tuple(config_maps.values()), parsed)


def list_labelled_config_maps(api: DoctorClient, namespace: str) -> tuple[str, ...] | Unavailable:
    """Return the names of the ConfigMaps of a namespace with the label of policies."""
    query = {"labelSelector": f"{POLICIES_LABEL}={LABEL_VALUE}", "limit": f"{_MAX_CONFIG_MAPS}"}
    found = api.list_objects(f"/api/v1/namespaces/{namespace}/configmaps", PartialObjectMetadata, query)
    if isinstance(found, Unavailable):
        return found
    return tuple(each.metadata.name for each in found if each.metadata is not None and each.metadata.name)


def get_policies(stored: StoredPolicies | Unavailable) -> PolicySet | Unavailable:
    """Return the policies of stored ConfigMaps, if a gate would load them."""
    if isinstance(stored, Unavailable):
        return stored
    errors = [finding for finding in stored.parsed.findings if finding.severity is Severity.ERROR]
    return Unavailable(f"the gate's policies are not usable: {errors[0]}") if errors else stored.parsed.policies


def read_gate_policies(connection: ClientConfig) -> PolicySet | Unavailable:
    """Return the policies of the gate that a cluster calls; none if no gate is installed or registered there."""
    api = DoctorClient(connection)
    configurations: list[WebhookConfiguration] = []
    for kind in (MUTATING, VALIDATING):
        path = f"{CONFIGURATIONS_PATH}/{kind}s/{CONFIGURATION_NAME}"
        configuration = api.get_object(path, WebhookConfiguration)
        if isinstance(configuration, Unavailable):
            return Unavailable(f"the {kind} {CONFIGURATION_NAME} cannot be read: {configuration.reason}")
        configurations += [configuration] if configuration is not None else []
    namespace = find_service_namespace(configurations) or DEFAULT_NAMESPACE
    deployment = api.get_object(create_deployment_path(namespace), GateDeployment)
    if deployment is None and not configurations:
        return PolicySet()
    return get_policies(read_stored_policies(api, namespace, deployment))


def find_gate_namespace(connection: ClientConfig) -> str:
    """Return the namespace of the gate that a cluster calls by a Service, else that of the installation."""
    api = DoctorClient(connection)
    found = [
        api.get_object(f"{CONFIGURATIONS_PATH}/{kind}s/{CONFIGURATION_NAME}", WebhookConfiguration)
        for kind in (MUTATING, VALIDATING)
    ]
    return (
        find_service_namespace(
            [found_object for found_object in found if isinstance(found_object, WebhookConfiguration)]
        )
        or DEFAULT_NAMESPACE
    )


def find_service_namespace(configurations: Sequence[WebhookConfiguration]) -> str:
    """Return the namespace of the Service by which the gate is called; an empty string if it is not called by one."""
    services = (webhook.client_config.service for configuration in configurations for webhook in configuration.webhooks)
    return next((service.namespace for service in services if service), "")


def create_deployment_path(namespace: str) -> str:
    """Return the path of the gate's Deployment."""
    return f"/apis/apps/v1/namespaces/{namespace}/deployments/{GATE_NAME}"


def _read_config_map(
    api: DoctorClient, namespace: str, deployment: GateDeployment, path: PurePosixPath
) -> tuple[str, PurePosixPath, _StoredConfigMap]:
    """Return the ConfigMap that the gate's container has at a path, with its name and the folder of its volume.

    Raises:
        _UnreadableError: if no ConfigMap is mounted there, or it cannot be read.
    """
    mounted = deployment.find_config_map(path)
    if mounted is None:
        raise _UnreadableError(f"the gate's Deployment mounts no ConfigMap at {path}")
    name, folder = mounted
    config_map = api.get_object(f"/api/v1/namespaces/{namespace}/configmaps/{name}", _StoredConfigMap)
    if config_map is None:
        raise _UnreadableError(f"there is no ConfigMap {namespace}/{name}, which the gate's Deployment mounts")
    if isinstance(config_map, Unavailable):
        raise _UnreadableError(f"the ConfigMap {namespace}/{name} cannot be read: {config_map.reason}")
    return name, folder, config_map
