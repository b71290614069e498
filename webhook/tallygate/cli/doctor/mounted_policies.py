"""The policies that the gate mounts: those in the ConfigMaps of its Deployment.

The arguments `--policies` of the gate name files and folders in its containers. A folder in which a ConfigMap is
mounted has one file for each key. Other sources, such as a folder of the image, are not read.
"""

from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Final

import msgspec

from tallygate.admission.webhook_configuration import CONFIGURATION_NAME, DEFAULT_NAMESPACE
from tallygate.cli.doctor.api_types import GateDeployment
from tallygate.cli.doctor.doctor_client import DoctorClient
from tallygate.cli.doctor.facts import MUTATING, VALIDATING, Unavailable
from tallygate.errors import TallygateError
from tallygate.kube.client import ClientConfig
from tallygate.objects.admission_registration import WebhookConfiguration
from tallygate.policy.load import SUFFIXES, load_policies
from tallygate.policy.model import PolicySet

GATE_NAME: Final = "tallygate"
"""The name of the gate's Deployment, of its Service and, by default, of its ServiceAccount."""

CONFIGURATIONS_PATH: Final = "/apis/admissionregistration.k8s.io/v1"
"""The path of the webhook configurations."""

_FLAG = "--policies="


class _ConfigMap(msgspec.Struct, frozen=True):
    data: dict[str, str] | None = None


class _UnreadableError(TallygateError):
    """The policies of a gate cannot be read; the text has the reason."""


def read_mounted_policies(
    api: DoctorClient, namespace: str, deployment: GateDeployment | Unavailable | None
) -> PolicySet | Unavailable:
    """Return the policies in the ConfigMaps that a Deployment in a namespace mounts."""
    if isinstance(deployment, Unavailable):
        return Unavailable(f"the gate's Deployment cannot be read: {deployment.reason}")
    if deployment is None:
        return Unavailable(f"there is no Deployment of the gate in {namespace}")
    paths = [argument.removeprefix(_FLAG) for argument in deployment.arguments if argument.startswith(_FLAG)]
    if not paths:
        return Unavailable("the arguments of the gate's Deployment have no --policies")
    try:
        texts = dict(entry for path in paths for entry in _read_files(api, namespace, deployment, PurePosixPath(path)))
    except _UnreadableError as error:
        return Unavailable(str(error))
    parsed = load_policies((), extra_files=tuple(texts.items()), are_extra_named=False)
    if not parsed.is_usable:
        return Unavailable(f"the gate's policies are not usable: {parsed.findings[0]}")
    return parsed.policies


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
    return read_mounted_policies(api, namespace, deployment)


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


def _read_files(
    api: DoctorClient, namespace: str, deployment: GateDeployment, path: PurePosixPath
) -> Iterator[tuple[str, bytes]]:
    """Yield the name and the text of each policy file at a path in the gate's container.

    Raises:
        _UnreadableError: if no ConfigMap is mounted there, or it cannot be read.
    """
    mounted = deployment.find_config_map(path)
    if mounted is None:
        raise _UnreadableError(f"the gate's Deployment mounts no ConfigMap at {path}")
    name, folder = mounted
    config_map = api.get_object(f"/api/v1/namespaces/{namespace}/configmaps/{name}", _ConfigMap)
    if config_map is None:
        raise _UnreadableError(f"there is no ConfigMap {namespace}/{name}, which the gate's Deployment mounts")
    if isinstance(config_map, Unavailable):
        raise _UnreadableError(f"the ConfigMap {namespace}/{name} cannot be read: {config_map.reason}")
    for key, text in (config_map.data or {}).items():
        is_policy = key.endswith(SUFFIXES) and not key.startswith(".")
        if folder / key == path or (is_policy and folder == path):
            yield f"configmap/{name}/{key}", text.encode()
