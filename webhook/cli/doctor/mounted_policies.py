"""The policies that the gate mounts: those in the ConfigMaps of its Deployment.

The arguments `--policies` of the gate name files and folders in its containers. A folder in which a ConfigMap is
mounted has one file for each key. Other sources, such as a folder of the image, are not read.
"""

from collections.abc import Iterator
from pathlib import PurePosixPath

import msgspec

from tallygate.webhook.cli.doctor.api_types import GateDeployment
from tallygate.webhook.cli.doctor.doctor_client import DoctorClient
from tallygate.webhook.cli.doctor.facts import Unavailable
from tallygate.webhook.errors import TallygateError
from tallygate.webhook.policy.load import SUFFIXES, load_policies
from tallygate.webhook.policy.model import PolicySet

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
    paths = [each.removeprefix(_FLAG) for each in deployment.arguments if each.startswith(_FLAG)]
    if not paths:
        return Unavailable("the arguments of the gate's Deployment have no --policies")
    try:
        files = {
            name: content
            for path in paths
            for name, content in _read_files(api, namespace, deployment, PurePosixPath(path))
        }
    except _UnreadableError as error:
        return Unavailable(str(error))
    parsed = load_policies((), extra_files=tuple(files.items()))
    if not parsed.is_usable:
        return Unavailable(f"the gate's policies are not usable: {parsed.findings[0]}")
    return parsed.policies


def _read_files(
    api: DoctorClient, namespace: str, deployment: GateDeployment, path: PurePosixPath
) -> Iterator[tuple[str, bytes]]:
    """Yield the name and the content of each policy file at a path in the gate's container.

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
