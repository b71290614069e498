"""The gate of an installed Deployment as a process of this machine: its arguments, its policies, its rights."""

import base64
import json
import sys
from collections.abc import Iterable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Final

from e2e.errors import ClusterError
from e2e.gates.running import HERE, LOOPBACK, RunningGate
from e2e.installation.rendered import Object, registers
from e2e.local.ports import free_ports
from e2e.policy_files import put
from e2e.ports import Cluster
from e2e.service_account import as_service_account

_POLICIES: Final = "/etc/tallygate/policies"
_FOLDERS: Final = {_POLICIES: "policies", "/etc/tallygate/tls": "tls", "/run/tallygate": "run"}
"""Paths in the pod, and what stands for them in the process's own folder."""


class InstalledGate(RunningGate):
    """What the Deployment's container would be: policies from the ConfigMap, calls by the ServiceAccount's token.

    `more` are arguments beside the Deployment's own.
    """

    def __init__(self, cluster: Cluster, namespace: str, folder: Path, more: Iterable[str] = ()) -> None:
        """Read what is installed; it does not run yet.

        Raises:
            ClusterError: it is not installed; the text is kubectl's.
        """
        self.port, monitor = free_ports(2)
        super().__init__(folder, monitor)
        self._cluster = cluster
        self._namespace = namespace
        self._more = tuple(more)
        for name in _FOLDERS.values():
            (folder / name).mkdir(parents=True)

    def start(self) -> None:
        """Run it as the Deployment says now, and wait until it is ready.

        Raises:
            ClusterError: it ends, or is not ready in time; the text has its log.
        """
        self.bring_policies()
        self.run(self._command(), {"TALLYGATE_NAMESPACE": self._namespace})

    def bring_policies(self) -> None:
        """Let its policy files be those of the ConfigMap, as a kubelet does.

        Raises:
            ClusterError: there is no such ConfigMap.
        """
        files: Mapping[str, str] = self._read("configmap", "tallygate-policies")["data"]
        put(files, self._folder / _FOLDERS[_POLICIES])

    def bring_certificate(self) -> None:
        """Let its certificate be that of the Secret, as a kubelet does.

        Raises:
            ClusterError: there is no such Secret.
        """
        data: Mapping[str, str] = self._read("secret", "tallygate-tls")["data"]
        files = {name: base64.b64decode(text).decode() for name, text in data.items()}
        put(files, self._folder / _FOLDERS["/etc/tallygate/tls"])

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
        own = (f"--listen={LOOPBACK}:{self.port}", f"--monitor={LOOPBACK}:{self._monitor}")
        return (sys.executable, "-m", "webhook.cli", *arguments, *own, *self._more)

    def _here(self, argument: str) -> str:
        """An argument as the kubelet expands it, with paths of this machine in place of the pod's."""
        expanded = argument.replace("$(TALLYGATE_NAMESPACE)", self._namespace)
        for path, name in _FOLDERS.items():
            expanded = expanded.replace(f"={path}", f"={self._folder / name}")
        return expanded

    def _read(self, kind: str, name: str) -> Object:
        done = self._cluster.kubectl("get", kind, name, f"--namespace={self._namespace}", "--output=json")
        if done.returncode:
            raise ClusterError(f"kubectl get {kind}: {done.stderr.strip()}")
        found: Object = json.loads(done.stdout)
        return found
