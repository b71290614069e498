"""The pod of an installed Deployment as processes of this machine: their arguments, their policies, their rights."""

import base64
import json
import re
import shutil
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from pathlib import Path

from e2e.errors import ClusterError
from e2e.gates.forked import TALLYGATE
from e2e.gates.relay import RelayProcess
from e2e.gates.running import HERE, LOOPBACK, RunningGate
from e2e.installation.rendered import Object, is_registration
from e2e.local.ports import free_ports
from e2e.policy_files import put
from e2e.ports import Cluster
from e2e.service_account import as_service_account
from tallygate.admission.self_registration import URL_ANNOTATION

_POLICIES, _TLS = "policies", "tls"
"""Volumes of the pod; a folder of this name stands for each."""


class InstalledGate(RunningGate):
    """The Deployment's containers as processes: policies from the ConfigMap, calls by the ServiceAccount's token.

    Where there is a relay, it is HAProxy with the ConfigMap's configuration, and receives the calls. `more` are
    arguments of the gate beside the Deployment's own.
    """

    def __init__(self, cluster: Cluster, namespace: str, folder: Path, more: Iterable[str] = ()) -> None:
        """Read what is installed; it does not run yet.

        Raises:
            ClusterError: if it is not installed; the text is kubectl's.
        """
        self.port, self._behind, monitor, relays, self._unused = free_ports(5)
        super().__init__(folder, monitor)
        self._cluster = cluster
        self._namespace = namespace
        self._more = tuple(more)
        for name in (_POLICIES, _TLS):
            (folder / name).mkdir(parents=True)
        self._relay = RelayProcess(folder / "relay-log", relays)

    def start(self) -> None:
        """Run it as the Deployment says now, and wait until it is ready.

        Raises:
            ClusterError: if it ends, or is not ready in time; the text has its log.
        """
        self.bring_policies()
        listed = self._read("deployment", "tallygate")["spec"]["template"]["spec"]["containers"]
        containers = {each["name"]: each for each in listed}
        relay = containers.get("relay")
        self._relay.directory.mkdir(exist_ok=True)
        variables = {"TALLYGATE_NAMESPACE": self._namespace}
        self.run(self._gate(containers["tallygate"], self._behind if relay else self.port), variables)
        if relay:
            self._bring_configuration(relay)
            pre_stop = relay["lifecycle"]["preStop"]["exec"]["command"]
            self._relay.start(self._expand(relay, relay["command"]), self._create_environment(relay), pre_stop)

    def stop(self) -> None:
        """End all of it at the same time, as a kubelet does, and wait until it has ended."""
        with ThreadPoolExecutor(1) as beside:
            ended = beside.submit(self._relay.stop)
            super().stop()
            ended.result()
        shutil.rmtree(self._relay.directory, ignore_errors=True)

    def bring_policies(self) -> None:
        """Copy its policy files from the ConfigMap, as a kubelet does.

        Raises:
            ClusterError: if there is no such ConfigMap.
        """
        files: Mapping[str, str] = self._read("configmap", "tallygate-policies")["data"]
        put(files, self._folder / _POLICIES)

    def bring_certificate(self) -> None:
        """Copy its certificate from the Secret, as a kubelet does.

        Raises:
            ClusterError: if there is no such Secret.
        """
        data: Mapping[str, str] = self._read("secret", "tallygate-tls")["data"]
        files = {name: base64.b64decode(text).decode() for name, text in data.items()}
        put(files, self._folder / _TLS)

    @property
    def url(self) -> str:
        """The URL at which the API server calls it."""
        return f"https://{HERE}:{self.port}"

    def redirect_webhooks(self, objects: Iterable[Object]) -> list[Object]:
        """Return the webhook configurations of these objects, with the annotation of this process's own address.

        There is no network of Services on the local control plane; all else of them is as it was rendered.
        """
        changed = deepcopy([each for each in objects if is_registration(each)])
        for each in changed:
            each["metadata"]["annotations"][URL_ANNOTATION] = self.url
        return changed

    def annotate_registration(self) -> None:
        """Write that annotation into the configurations that exist, as an administrator would.

        Raises:
            ClusterError: if it cannot be written; the text is kubectl's.
        """
        kinds = "mutatingwebhookconfiguration,validatingwebhookconfiguration"
        done = self._cluster.kubectl("annotate", "--overwrite", kinds, "tallygate", f"{URL_ANNOTATION}={self.url}")
        if done.returncode:
            raise ClusterError(f"kubectl annotate: {done.stderr.strip()}")

    def _gate(self, container: Object, port: int) -> tuple[str, ...]:
        kubeconfig = as_service_account(self._cluster, self._namespace, "tallygate", self._folder / "kubeconfig")
        known = {"--cluster=in-cluster": ("--cluster=kubeconfig", f"--kubeconfig={kubeconfig}")}
        given = self._expand(container, container["args"])
        arguments = [each for argument in given for each in known.get(argument, (argument,))]
        own = (f"--listen={LOOPBACK}:{port}", f"--monitor={LOOPBACK}:{self._monitor}")
        return (*TALLYGATE, *arguments, *own, *self._more)

    def _bring_configuration(self, relay: Object) -> None:
        """Copy the relay's configuration from the ConfigMap, as a kubelet does."""
        (folder,) = {self._folder / each["name"] for each in relay["volumeMounts"] if each["mountPath"] == "/etc/relay"}
        folder.mkdir(exist_ok=True)
        put(self._read("configmap", "tallygate-relay")["data"], folder)

    def _create_environment(self, relay: Object) -> dict[str, str]:
        """Return the variables of the relay's container, with addresses of this machine in place of a pod's."""
        own = {
            "RELAY_LISTEN": f"{LOOPBACK}:{self.port}",
            "RELAY_FOLDER": str(self._relay.directory),
            "RELAY_GATE": f"{LOOPBACK}:{self._behind}",
            "RELAY_GATE_MONITOR": str(self._monitor),
            "RELAY_MONITOR": self._relay.monitor,
            "RELAY_PEERS": f"{LOOPBACK}:{self._unused}",
        }
        given = {each["name"]: each["value"] for each in relay["env"] if "value" in each}
        return dict(zip(given, self._expand(relay, given.values()), strict=True)) | own

    def _expand(self, container: Object, texts: Iterable[str]) -> list[str]:
        """Return arguments as the kubelet expands them, with folders in place of the container's volumes."""
        volumes = {each["mountPath"]: self._folder / each["name"] for each in container["volumeMounts"]}
        volumes["/run/relay"] = self._relay.directory
        paths = re.compile(rf"(?<![\w/])({'|'.join(map(re.escape, volumes))})(?=[/\s]|$)")
        expanded = (each.replace("$(TALLYGATE_NAMESPACE)", self._namespace) for each in texts)
        return [paths.sub(lambda found: str(volumes[found[1]]), each) for each in expanded]

    def _read(self, kind: str, name: str) -> Object:
        done = self._cluster.kubectl("get", kind, name, f"--namespace={self._namespace}", "--output=json")
        if done.returncode:
            raise ClusterError(f"kubectl get {kind}: {done.stderr.strip()}")
        found: Object = json.loads(done.stdout)
        return found
