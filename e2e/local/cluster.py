"""The local control plane as a whole: started, waited for, used by kubectl, and stopped."""

import json
import os
import signal
import ssl
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Self
from urllib.request import HTTPSHandler, ProxyHandler, build_opener
from uuid import uuid4

from e2e.api import api
from e2e.local import launches
from e2e.local.build import Programs, programs
from e2e.local.component import Component, Launch
from e2e.local.credentials import Credentials
from e2e.local.ports import free_ports
from e2e.waiting import until

_SECOND = "kube-apiserver-2"
_READY_WITHIN = 120.0  # seconds; a busy machine with two cores needs ten
_KUBECTL_WITHIN = 360.0  # seconds; some wait for minutes


@dataclass(frozen=True, slots=True)
class ApiServer:
    """An API server of a cluster, with the kubeconfig of an administrator for it."""

    component: Component
    kubeconfig: Path
    _is_ready: Callable[[], bool]

    def start(self) -> None:
        """Start it again after it was ended, and wait until it is ready.

        Raises:
            ClusterError: if it is not ready in time.
        """
        self.component.start()
        self.until_ready()

    def until_ready(self) -> None:
        """Wait until it is ready.

        Raises:
            ClusterError: if it ended, or is not ready in time.
        """
        until(f"{self.component.name} is ready", self._is_ready, _READY_WITHIN, self.component.log_end)


class LocalCluster:
    """A Kubernetes control plane on this machine, for as long as the `with` block runs.

    `kubeconfig` is that of an administrator, `folder` has everything the cluster writes, and `kubectl_program` is a
    kubectl of the same version.
    """

    def __init__(self, apiserver_arguments: Sequence[str] = (), feature_gates: str = "") -> None:
        """Nothing runs yet; the API server will get these further arguments, and all components these feature gates."""
        self._apiserver_arguments = apiserver_arguments
        self._feature_gates = (f"--feature-gates={feature_gates}",) if feature_gates else ()
        self._ends = ExitStack()
        self._components: list[Component] = []
        self._environment: dict[str, str] = {}

    def __enter__(self) -> Self:
        """Build what is missing, start everything and wait until it is ready.

        Raises:
            BuildError: if the programs cannot be had on this machine.
            ClusterError: if a component ended, or is not ready in time; nothing is left running.
        """
        built = programs()
        with ExitStack() as ends:
            self.folder = Path(ends.enter_context(TemporaryDirectory(prefix="tallygate-cluster-")))
            self._start(built, ends)
            self._ends = ends.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop everything, the last started first, and remove the folder."""
        self._ends.close()

    @property
    def components(self) -> tuple[Component, ...]:
        """The running components, in the order in which they started."""
        return tuple(self._components)

    def check(self) -> None:
        """Check that every component still runs.

        Raises:
            ClusterError: if one has ended; the text names it and has the end of its log.
        """
        _check(self._components)

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables of kubectl beside the user's own."""
        return self._environment

    @contextmanager
    def run_second_server(
        self, etcd_proxy: Callable[[int], int] = lambda port: port, arguments: Sequence[str] = ()
    ) -> Iterator[ApiServer]:
        """Run another API server with the same etcd for as long as the block runs, and yield it when it is ready.

        No other component uses it. It may end, or stand still, in the block. `etcd_proxy` returns the port by which it
        reaches the port of etcd. `arguments` are further ones of this API server.

        Raises:
            ClusterError: if it does not become ready in time.
        """
        folder = self.folder / f"{_SECOND}-{uuid4().hex[:8]}"
        folder.mkdir()
        ports = replace(self._ports, etcd=etcd_proxy(self._ports.etcd), apiserver=free_ports(1)[0])
        arguments = (*self._apiserver_arguments, *self._feature_gates, *arguments)
        launch = launches.apiserver(self._programs, folder, ports, self._credentials, arguments)
        content = json.loads(self.kubeconfig.read_text())
        for each in content["clusters"]:
            each["cluster"]["server"] = launches.server(ports)
        kubeconfig = folder / "admin.kubeconfig"
        kubeconfig.touch(mode=0o600)
        kubeconfig.write_text(json.dumps(content))
        component = Component(replace(launch, name=_SECOND), folder, {**self._environment, "KUBECONFIG": ""})
        server = ApiServer(component, kubeconfig, partial(self._are_ready, (component,)))
        try:
            server.until_ready()
            yield server
        finally:
            component.signal(signal.SIGCONT)
            component.stop()

    def restart_api_server(self) -> None:
        """Kill the API server, start it again, and wait until all are ready.

        Every other component is restarted too: it would recover by itself, but after a minute, and later each time
        (client-go's reflectors wait for up to twice 30 s, and forget that only after two quiet minutes).

        Raises:
            ClusterError: if something does not become ready in time.
        """
        etcd, server, *others = self._components
        server.kill()
        for each in reversed(others):
            each.stop()
        server.start()
        self._until("the API server is ready", partial(self._are_ready, (etcd, server)))
        for each in others:
            each.start()
        self._until("the control plane is ready", self._all_ready)

    def kubectl(self, *args: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run kubectl as administrator; the caller evaluates its output and its exit code.

        Raises:
            ClusterError: if a component has ended, so that an answer would mean nothing.
        """
        self.check()
        return subprocess.run(  # noqa: S603  our own kubectl, and no shell
            [str(self.kubectl_program), *args],
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            check=False,
            timeout=_KUBECTL_WITHIN,
            env={**os.environ, **self._environment},
        )

    def _start(self, built: Programs, ends: ExitStack) -> None:
        self._programs = built
        self._ports = ports = launches.Ports(*free_ports(len(launches.Ports.__annotations__)))
        self._credentials = credentials = Credentials(self.folder / "credentials", launches.server(ports))
        self.kubeconfig = credentials.kubeconfig("admin.kubeconfig", "tallygate-admin", "system:masters")
        self.kubectl_program = self._link_kubectl(built)
        # Whatever a program keeps in its user's home goes with the cluster.
        self._environment = {"HOME": str(self.folder), "KUBECONFIG": str(self.kubeconfig)}
        trust = ssl.create_default_context(cafile=credentials.authority)
        # Without a proxy, whatever the environment says: loopback is meant.
        self._client = build_opener(ProxyHandler({}), HTTPSHandler(context=trust))
        self._launch(launches.etcd(built, self.folder, ports), ends)
        arguments = (*self._apiserver_arguments, *self._feature_gates)
        server = launches.apiserver(built, self.folder, ports, credentials, arguments)
        self._launch(server, ends)
        self._until("the API server is ready", self._all_ready)
        for each in (launches.controllers, launches.scheduler):
            self._launch(each(built, self.folder, ports, credentials, self._feature_gates), ends)
        self._launch(launches.kwok(built, ports, self.kubeconfig), ends)
        self._until("the control plane is ready", self._all_ready)
        self._until("the namespace default takes pods", self._takes_pods)

    def _link_kubectl(self, built: Programs) -> Path:
        """Link it in a folder for PATH, where nothing else is."""
        link = self.folder / "bin" / "kubectl"
        link.parent.mkdir()
        link.symlink_to(built.kubectl)
        return link

    def _launch(self, launch: Launch, ends: ExitStack) -> None:
        component = Component(launch, self.folder, {**self._environment, "KUBECONFIG": ""})
        ends.callback(component.stop)
        self._components.append(component)

    def _are_ready(self, components: Iterable[Component]) -> bool:
        """Return whether these components are ready; none may have ended."""
        _check(components)
        return all(component.is_ready(self._client) for component in components)

    def _all_ready(self) -> bool:
        return self._are_ready(self._components)

    def _takes_pods(self) -> bool:
        """Return whether pods are accepted: a controller must have made the namespace's ServiceAccount."""
        self.check()
        return api(self.kubeconfig).find("/api/v1/namespaces/default/serviceaccounts/default") is not None

    def _until(self, what: str, is_so: Callable[[], bool]) -> None:
        """Wait until `is_so`, and check that no component ends meanwhile.

        Raises:
            ClusterError: if it is not in time, or a component ended.
        """
        until(what, is_so, _READY_WITHIN, self._log_ends)

    def _log_ends(self) -> str:
        return "\n".join(f"-- {each.name}\n{each.log_end()}" for each in self._components)


def _check(components: Iterable[Component]) -> None:
    for component in components:
        component.check()
