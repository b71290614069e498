"""A controller as a process of this machine, with its webhooks and the certificates that it makes for itself.

Its manifests are those of its module, with the names that its installation gives. Two parts of a cluster are missing
here, and this module stands for both: the Service of the webhooks has the type ExternalName, by which the API server
reaches a port of this machine, and the Secret with the certificate is copied to a folder as a kubelet mounts it.
"""

import base64
import socket
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from string import Template
from typing import Final
from urllib.request import ProxyHandler, build_opener

import yaml

from e2e.api import Api, Object, api
from e2e.command_output import run_kubectl
from e2e.local.cluster import LocalCluster
from e2e.local.component import Component, Launch
from e2e.local.ports import free_ports
from e2e.waiting import until
from e2e.workload_kinds.controllers.projects import Project, Webhooks

_HOST: Final = "127.0.0.1"
_SERVING = Path("k8s-webhook-server") / "serving-certs"
_FIXED_CERTIFICATES: Final = Path("/tmp") / _SERVING  # noqa: S108  # two projects look there, whatever their settings
_DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_SETTINGS: Final = "settings.yaml"
_OBJECTS: Final = "objects.yaml"
_READY_WITHIN: Final = 240.0  # seconds


def run_controller(project: Project, cluster: LocalCluster, ends: ExitStack) -> None:
    """Install a project and run its controller until the stack ends; return once it is ready.

    Raises:
        BuildError: if the program is not built and cannot be.
        ClusterError: if the API server refuses something, or the controller is not ready in time.
    """
    program = project.program.program()
    webhooks_port, health_port = free_ports(2)
    folder = cluster.folder / project.name
    certificates = folder / _SERVING
    certificates.mkdir(parents=True)
    names = {
        "host": _HOST,
        "port": str(webhooks_port),
        "health": f"{_HOST}:{health_port}",
        "health_port": str(health_port),
        "settings": str(folder / _SETTINGS),
        "certificates": str(certificates),
    }
    if (project.path / _SETTINGS).exists():
        _fill_template(project, _SETTINGS, folder, names)
    _install(project, cluster, folder, names)
    if project.webhooks is not None:
        _install_webhooks(project, project.webhooks, cluster, webhooks_port)
        _mark_mounted(ends)
    command = (str(program), *(each.format(**names) for each in project.arguments))
    environment = {**cluster.environment, "TMPDIR": str(folder), **project.environment}
    component = Component(Launch(project.name, command, project.ready.format(**names)), folder, environment)
    ends.callback(component.stop)
    client = build_opener(ProxyHandler({}))

    def is_ready() -> bool:
        component.check()
        if project.webhooks is None:
            return component.is_ready(client)
        is_mounted = _mount_certificate(project.webhooks, cluster, certificates)
        return is_mounted and component.is_ready(client) and _accepts_connections(webhooks_port)

    until(f"the controller of {project.name} is ready", is_ready, _READY_WITHIN, component.log_end)


def _install(project: Project, cluster: LocalCluster, folder: Path, names: Mapping[str, str]) -> None:
    """Create its definitions, and the objects that its controller reads."""
    paths = sorted(file for pattern in project.definitions for file in project.folder.glob(pattern))
    files = [f"--filename={file}" for file in paths]
    run_kubectl(cluster, "apply", "--server-side", *files)
    client = api(cluster.kubeconfig)
    until(
        "the definitions are established", lambda: all(map(_is_established, client.items(_DEFINITIONS))), _READY_WITHIN
    )
    if (project.path / _OBJECTS).exists():
        run_kubectl(cluster, "create", f"--filename={_fill_template(project, _OBJECTS, folder, names)}")


def _is_established(definition: Object) -> bool:
    conditions = definition.get("status", {}).get("conditions") or ()
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)


def _fill_template(project: Project, name: str, folder: Path, names: Mapping[str, str]) -> Path:
    """Write a file of the folder of a project with the names of this run, and return its path."""
    filled = folder / name
    filled.write_text(Template((project.path / name).read_text()).substitute(names))
    return filled


def _install_webhooks(project: Project, webhooks: Webhooks, cluster: LocalCluster, port: int) -> None:
    client = api(cluster.kubeconfig)
    metadata, core = {"namespace": webhooks.namespace}, f"/api/v1/namespaces/{webhooks.namespace}"
    client.create("/api/v1/namespaces", {"kind": "Namespace", "metadata": {"name": webhooks.namespace}})
    client.create(f"{core}/secrets", {"kind": "Secret", "metadata": {"name": webhooks.secret, **metadata}})
    service = {"type": "ExternalName", "externalName": "localhost"}
    client.create(
        f"{core}/services", {"kind": "Service", "metadata": {"name": webhooks.service, **metadata}, "spec": service}
    )
    if webhooks.conversions:
        _convert_by_webhook(project, webhooks, client, port)
    for each in yaml.safe_load_all((project.folder / webhooks.manifests).read_text()):
        configuration = _adapt_configuration(webhooks, each, port)
        client.create(client.collection(configuration, ""), configuration)


def _refer_to_service(webhooks: Webhooks, path: str, port: int) -> Object:
    return {"service": {"name": webhooks.service, "namespace": webhooks.namespace, "path": path, "port": port}}


def _adapt_configuration(webhooks: Webhooks, configuration: Object, port: int) -> Object:
    """Return a configuration of webhooks with the names of an installation, and with those that are needed."""
    registered = [
        {**each, "clientConfig": _refer_to_service(webhooks, each["clientConfig"]["service"]["path"], port)}
        for each in configuration["webhooks"]
        if not webhooks.resources or each["rules"][0]["resources"][0] in webhooks.resources
    ]
    name = webhooks.configurations[configuration["kind"]]
    return {**configuration, "metadata": {"name": name}, "webhooks": registered}


def _convert_by_webhook(project: Project, webhooks: Webhooks, client: Api, port: int) -> None:
    """Patch the definitions that a webhook converts, as the kustomization does; the certificate comes later."""
    for file in project.folder.glob(webhooks.conversions):
        patch = yaml.safe_load(file.read_text())
        patch["spec"]["conversion"]["webhook"]["clientConfig"] = _refer_to_service(webhooks, "/convert", port)
        client.patch(f"{_DEFINITIONS}/{patch['metadata']['name']}", {"spec": patch["spec"]})


def _mount_certificate(webhooks: Webhooks, cluster: LocalCluster, folder: Path) -> bool:
    """Write the files of the Secret, as a kubelet does; return whether there are any."""
    secret = api(cluster.kubeconfig).get(f"/api/v1/namespaces/{webhooks.namespace}/secrets/{webhooks.secret}")
    for name, content in (secret.get("data") or {}).items():
        (folder / name).write_bytes(base64.b64decode(content))
    return (folder / "tls.crt").exists()


def _accepts_connections(port: int) -> bool:
    """Return whether the webhooks are served: some health checks succeed before."""
    try:
        with socket.create_connection((_HOST, port)):
            return True
    except OSError:
        return False


def _mark_mounted(ends: ExitStack) -> None:
    """Write an empty file where two of the controllers look whether certificates are mounted; they do not read it."""
    file = _FIXED_CERTIFICATES / "tls.crt"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        ends.callback(partial(file.unlink, missing_ok=True))
