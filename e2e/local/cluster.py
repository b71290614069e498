"""The local control plane as a whole: started, waited for, talked to by kubectl, and stopped."""

import os
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Self
from urllib.request import HTTPSHandler, ProxyHandler, build_opener

from e2e.local import launches
from e2e.local.build import Programs, programs
from e2e.local.component import Component, Launch
from e2e.local.credentials import Credentials
from e2e.local.errors import ClusterError

_READY_WITHIN = 120.0  # seconds; a busy machine with two cores needs ten
_PAUSE = 0.05  # seconds between two looks
_KUBECTL_WITHIN = 120.0  # seconds


class LocalCluster:
    """A Kubernetes control plane on this machine, for as long as the `with` block runs.

    `kubeconfig` is that of an administrator, `folder` holds everything the cluster writes, and `kubectl_program` is a
    kubectl of the same version.
    """

    def __init__(self) -> None:
        """Nothing runs yet."""
        self._ends = ExitStack()
        self._components: list[Component] = []
        self._environment: dict[str, str] = {}

    def __enter__(self) -> Self:
        """Build what is missing, start everything and wait until it is ready.

        Raises:
            BuildError: the programs cannot be had on this machine.
            ClusterError: a component ended, or is not ready in time; nothing is left running.
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
        """What runs, in the order in which it started."""
        return tuple(self._components)

    def check(self) -> None:
        """See that every component still runs.

        Raises:
            ClusterError: one has ended; the text names it and has the end of its log.
        """
        for component in self._components:
            component.check()

    def kubectl(self, *args: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run kubectl as administrator; what it says and its exit code are the caller's to judge.

        Raises:
            ClusterError: a component has ended, so that an answer would mean nothing.
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
            env={**os.environ, **self._environment, "KUBECONFIG": str(self.kubeconfig)},
        )

    def _start(self, built: Programs, ends: ExitStack) -> None:
        ports = launches.Ports(*_free_ports(len(launches.Ports.__annotations__)))
        credentials = Credentials(self.folder / "credentials", launches.server(ports))
        self.kubeconfig = credentials.kubeconfig("admin.kubeconfig", "tallygate-admin", "system:masters")
        self.kubectl_program = self._link_kubectl(built)
        # Whatever a program keeps in its user's home goes with the cluster.
        self._environment = {"HOME": str(self.folder), "KUBECONFIG": ""}
        trust = ssl.create_default_context(cafile=credentials.authority)
        # Without a proxy, whatever the environment says: loopback is meant.
        self._client = build_opener(ProxyHandler({}), HTTPSHandler(context=trust))
        self._launch(launches.etcd(built, self.folder, ports), ends)
        self._launch(launches.apiserver(built, self.folder, ports, credentials), ends)
        self._until("the API server", self._all_ready)
        self._launch(launches.controllers(built, self.folder, ports, credentials), ends)
        self._launch(launches.scheduler(built, self.folder, ports, credentials), ends)
        self._launch(launches.kwok(built, ports, self.kubeconfig), ends)
        self._until("the control plane", self._all_ready)
        self._until("the namespace default", self._takes_pods)

    def _link_kubectl(self, built: Programs) -> Path:
        """The control plane's program is kubectl when called so."""
        link = self.folder / "bin" / "kubectl"
        link.parent.mkdir()
        link.symlink_to(built.controlplane)
        return link

    def _launch(self, launch: Launch, ends: ExitStack) -> None:
        component = Component(launch, self.folder, self._environment)
        ends.callback(component.stop)
        self._components.append(component)

    def _all_ready(self) -> bool:
        return all(component.is_ready(self._client) for component in self._components)

    def _takes_pods(self) -> bool:
        """Pods are refused until a controller has made the namespace's ServiceAccount."""
        return self.kubectl("get", "serviceaccount", "default").returncode == 0

    def _until(self, what: str, is_so: Callable[[], bool]) -> None:
        """Wait until it is so.

        Raises:
            ClusterError: it is not in time, or a component ended.
        """
        deadline = time.monotonic() + _READY_WITHIN
        while not is_so():
            self.check()
            if time.monotonic() > deadline:
                logs = "\n".join(f"-- {each.name}\n{each.log_end()}" for each in self._components)
                raise ClusterError(f"{what} is not ready after {_READY_WITHIN:.0f} s; the ends of the logs:\n{logs}")
            time.sleep(_PAUSE)


def _free_ports(count: int) -> Iterator[int]:
    """Ports that are free now, each another: all are held until all are found."""
    with ExitStack() as held:
        for _ in range(count):
            listening = held.enter_context(socket.socket())
            listening.bind(("127.0.0.1", 0))
            yield listening.getsockname()[1]
