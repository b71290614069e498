"""The gate of an installed Deployment as a process of this machine: its arguments, its policies, its rights."""

import json
import sys
from collections.abc import Iterable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError
from urllib.request import ProxyHandler, build_opener

from e2e.errors import ClusterError
from e2e.gates.process import HERE
from e2e.installation.rendered import Object, registers
from e2e.local.component import Component, Launch
from e2e.local.ports import free_ports
from e2e.ports import Cluster
from e2e.service_account import as_service_account
from e2e.waiting import until

_ROOT: Final = Path(__file__).parents[2]
_LOOPBACK: Final = "127.0.0.1"
_WITHIN = 120.0  # seconds, until it is ready or has taken something up; a busy machine is slow
_ANSWER = 10.0  # seconds for a health answer
_POLICIES: Final = "/etc/tallygate/policies"
_FOLDERS: Final = {_POLICIES: "policies", "/etc/tallygate/tls": "tls", "/run/tallygate": "run"}
"""Paths in the pod, and what stands for them in the process's own folder."""


class InstalledGate:
    """What the Deployment's container would be: policies from the ConfigMap, calls by the ServiceAccount's token.

    `more` are arguments beside the Deployment's own.
    """

    def __init__(self, cluster: Cluster, namespace: str, folder: Path, more: Iterable[str] = ()) -> None:
        """Read what is installed; it does not run yet.

        Raises:
            ClusterError: it is not installed; the text is kubectl's.
        """
        self._cluster = cluster
        self._namespace = namespace
        self._folder = folder
        self._more = tuple(more)
        for name in _FOLDERS.values():
            (folder / name).mkdir(parents=True)
        self.port, self.monitor = free_ports(2)
        self._component: Component | None = None
        self._client = build_opener(ProxyHandler({}))

    def start(self) -> None:
        """Run it as the Deployment says now, and wait until it is ready.

        Raises:
            ClusterError: it ends, or is not ready in time; the text has its log.
        """
        self.bring_policies()
        ready = f"http://{_LOOPBACK}:{self.monitor}/readyz"
        launch = Launch("tallygate", self._command(), ready)
        environment = {"PYTHONPATH": str(_ROOT), "TALLYGATE_NAMESPACE": self._namespace}
        self._component = component = Component(launch, self._folder, environment)
        until("the installed gate is ready", lambda: self._is_ready(component), _WITHIN, self.log)

    def stop(self) -> None:
        """End it by SIGTERM, and wait until it has ended; nothing happens when it does not run."""
        if self._component is not None:
            self._component.stop()
            self._component = None

    def bring_policies(self) -> None:
        """Let its policy files be those of the ConfigMap, as a kubelet does.

        Raises:
            ClusterError: there is no such ConfigMap.
        """
        files: Mapping[str, str] = self._read("configmap", "tallygate-policies")["data"]
        folder = self._folder / _FOLDERS[_POLICIES]
        for old in folder.iterdir():
            if old.name not in files:
                old.unlink()
        for name, text in files.items():
            beside = folder / f".{name}.new"
            beside.write_text(text)
            beside.rename(folder / name)

    def readiness(self) -> dict[str, Any]:
        """What its `/readyz` says, ready or not."""
        try:
            with self._client.open(f"http://{_LOOPBACK}:{self.monitor}/readyz", timeout=_ANSWER) as answer:
                said: dict[str, Any] = json.load(answer)
        except HTTPError as error:
            said = json.load(error)
        return said

    def log(self) -> str:
        """Everything it has logged."""
        return "" if self._component is None else self._component.log.read_text()

    def called_here(self, objects: Iterable[Object]) -> list[Object]:
        """The webhook configurations among these, called at this process instead of through the Service.

        There is no network of Services on the local control plane; all else of them is as it was rendered.
        """
        changed = deepcopy([each for each in objects if registers(each)])
        for each in changed:
            for webhook in each["webhooks"]:
                path = webhook["clientConfig"].pop("service")["path"]
                webhook["clientConfig"]["url"] = f"https://{HERE}:{self.port}{path}"
        return changed

    def _command(self) -> tuple[str, ...]:
        (container,) = self._read("deployment", "tallygate")["spec"]["template"]["spec"]["containers"]
        kubeconfig = as_service_account(self._cluster, self._namespace, "tallygate", self._folder / "kubeconfig")
        known = {"--cluster=in-cluster": ("--cluster=kubeconfig", f"--kubeconfig={kubeconfig}")}
        arguments = [each for given in container["args"] for each in known.get(given, (self._here(given),))]
        own = (f"--listen={_LOOPBACK}:{self.port}", f"--monitor={_LOOPBACK}:{self.monitor}")
        return (sys.executable, "-m", "webhook.cli", *arguments, *own, *self._more)

    def _here(self, argument: str) -> str:
        """An argument as the kubelet expands it, with paths of this machine in place of the pod's."""
        expanded = argument.replace("$(TALLYGATE_NAMESPACE)", self._namespace)
        for path, name in _FOLDERS.items():
            expanded = expanded.replace(f"={path}", f"={self._folder / name}")
        return expanded

    def _is_ready(self, component: Component) -> bool:
        component.check()
        return component.is_ready(self._client)

    def _read(self, kind: str, name: str) -> Object:
        done = self._cluster.kubectl("get", kind, name, f"--namespace={self._namespace}", "--output=json")
        if done.returncode:
            raise ClusterError(f"kubectl get {kind}: {done.stderr.strip()}")
        found: Object = json.loads(done.stdout)
        return found
