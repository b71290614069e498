"""A controller as a process of this machine, with its webhooks and the certificates that it makes for itself.

Its manifests are those of its module, with the names that its installation gives. Two parts of a cluster are missing
here, and this module stands for both: the Service of the webhooks has the type ExternalName, by which the API server
reaches a port of this machine, and the Secret with the certificate is copied to a folder as a kubelet mounts it.
"""

import base64
import json
import socket
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.request import ProxyHandler, build_opener

import yaml

from e2e.api import Api, Object, api
from e2e.command_output import run_kubectl
from e2e.local.cluster import LocalCluster
from e2e.local.component import Component, Launch
from e2e.local.ports import free_ports
from e2e.waiting import until
from e2e.workload_kinds.controllers.projects import Project

_HOST: Final = "127.0.0.1"
_SERVING = Path("k8s-webhook-server") / "serving-certs"
_FIXED_CERTIFICATES: Final = Path("/tmp") / _SERVING  # noqa: S108  # two projects look there, whatever their settings
_READY_WITHIN: Final = 240.0  # seconds


def run_controller(project: Project, cluster: LocalCluster, ends: ExitStack) -> None:
    """Install a project and run its controller until the stack ends; return once it is ready.

    Raises:
        BuildError: if the program is not built and cannot be.
        ClusterError: if the API server refuses something, or the controller is not ready in time.
    """
    program = project.program.program()
    webhooks_port, health_port = free_ports(2)
    _install(project, cluster, webhooks_port)
    folder = cluster.folder / project.name
    certificates = folder / _SERVING
    certificates.mkdir(parents=True)
    _mark_mounted(ends)
    command = (str(program), *_list_arguments(project, folder, webhooks_port, health_port))
    environment = {**cluster.environment, "TMPDIR": str(folder)}
    component = Component(Launch(project.name, command, f"http://{_HOST}:{health_port}/readyz"), folder, environment)
    ends.callback(component.stop)
    client = build_opener(ProxyHandler({}))

    def is_ready() -> bool:
        component.check()
        is_mounted = _mount_certificate(project, cluster, certificates)
        return is_mounted and component.is_ready(client) and _accepts_connections(webhooks_port)

    until(f"the controller of {project.name} is ready", is_ready, _READY_WITHIN, component.log_end)


def _install(project: Project, cluster: LocalCluster, port: int) -> None:
    client, names = api(cluster.kubeconfig), project.installation
    metadata, core = {"namespace": names.namespace}, f"/api/v1/namespaces/{names.namespace}"
    files = [f"--filename={file}" for file in sorted(project.folder.glob(project.definitions))]
    run_kubectl(cluster, "apply", "--server-side", *files)
    run_kubectl(cluster, "wait", "--for=condition=Established", "--timeout=120s", *files)
    client.create("/api/v1/namespaces", {"kind": "Namespace", "metadata": {"name": names.namespace}})
    client.create(f"{core}/secrets", {"kind": "Secret", "metadata": {"name": names.secret, **metadata}})
    service = {"type": "ExternalName", "externalName": "localhost"}
    client.create(
        f"{core}/services", {"kind": "Service", "metadata": {"name": names.service, **metadata}, "spec": service}
    )
    if project.conversions:
        _convert_by_webhook(project, client, port)
    for each in yaml.safe_load_all((project.folder / project.webhooks).read_text()):
        configuration = _adapt_configuration(project, each, port)
        client.create(client.collection(configuration, ""), configuration)


def _refer_to_service(project: Project, path: str, port: int) -> Object:
    names = project.installation
    return {"service": {"name": names.service, "namespace": names.namespace, "path": path, "port": port}}


def _adapt_configuration(project: Project, configuration: Object, port: int) -> Object:
    """Return a configuration of webhooks with the names of an installation, and with those that are needed."""
    webhooks = [
        {**each, "clientConfig": _refer_to_service(project, each["clientConfig"]["service"]["path"], port)}
        for each in configuration["webhooks"]
        if not project.webhook_kinds or each["rules"][0]["resources"][0] in project.webhook_kinds
    ]
    name = project.installation.configurations[configuration["kind"]]
    return {**configuration, "metadata": {"name": name}, "webhooks": webhooks}


def _convert_by_webhook(project: Project, client: Api, port: int) -> None:
    """Patch the definitions that a webhook converts, as the kustomization does; the certificate comes later."""
    for file in project.folder.glob(project.conversions):
        patch = yaml.safe_load(file.read_text())
        patch["spec"]["conversion"]["webhook"]["clientConfig"] = _refer_to_service(project, "/convert", port)
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{patch['metadata']['name']}"
        client.patch(path, {"spec": patch["spec"]})


def _list_arguments(project: Project, folder: Path, webhooks_port: int, health_port: int) -> list[str]:
    """Return the arguments of the controller, and write its settings."""
    health, file = f"{_HOST}:{health_port}", folder / "settings.yaml"
    settings: dict[str, Any] = {
        "apiVersion": project.settings,
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": health},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": _HOST, "port": webhooks_port, "certDir": str(folder / _SERVING)},
        "leaderElection": {"leaderElect": False},
    }
    if project.frameworks:
        settings["integrations"] = {"frameworks": project.frameworks}
    file.write_text(json.dumps(settings))
    return [argument.format(settings=file, health=health, port=webhooks_port) for argument in project.arguments]


def _mount_certificate(project: Project, cluster: LocalCluster, folder: Path) -> bool:
    """Write the files of the Secret, as a kubelet does; return whether there are any."""
    names = project.installation
    secret = api(cluster.kubeconfig).get(f"/api/v1/namespaces/{names.namespace}/secrets/{names.secret}")
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
