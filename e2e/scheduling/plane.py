"""A control plane for scheduling: etcd, the API server, the scheduler, and the named controllers.

No kubelets and no other controllers run: stored objects stay as they were written until the scheduler binds or
preempts.
"""

import signal
import ssl
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple
from urllib.request import HTTPSHandler, ProxyHandler, build_opener

from e2e.bench.client import Access, load_access
from e2e.local import launches
from e2e.local.build import Programs, programs
from e2e.local.component import Component, Launch
from e2e.local.credentials import Credentials
from e2e.local.ports import free_ports
from e2e.waiting import until

_READY_WITHIN = 120.0  # seconds
# Admission plugins that need controllers: for ServiceAccounts, readiness, the removal of finalizers.
_NEEDS_CONTROLLERS = "ServiceAccount,TaintNodesByCondition,StorageObjectInUseProtection"


@dataclass(frozen=True)
class Plane:
    """A running control plane: the access to its API server, with the kubeconfig for it, and its processes."""

    access: Access
    kubeconfig: Path
    scheduler: Component
    components: tuple[Component, ...]

    def check(self) -> None:
        """Check that all components run.

        Raises:
            ClusterError: if a component has ended; the text has the end of its log.
        """
        for component in self.components:
            component.check()

    def request_dump(self) -> None:
        """Request a dump of the scheduler's cache into its log (scheduler/backend/cache/debugger, v1.36)."""
        self.scheduler.signal(signal.SIGUSR2)


@contextmanager
def plane(*controllers: str, feature_gates: str = "", runtime_config: str = "") -> Iterator[Plane]:
    """Start a control plane with these controllers, wait until it is ready, and stop it after the block.

    The API server and the scheduler have the feature gates, and the API server the runtime configuration, too.

    Raises:
        BuildError: if the programs cannot be built on this machine.
        ClusterError: if a component does not start.
    """
    built = programs()
    with TemporaryDirectory(prefix="tallygate-plane-") as folder, ExitStack() as stack:
        gates = (f"--feature-gates={feature_gates}",) if feature_gates else ()
        served = (f"--runtime-config={runtime_config}",) if runtime_config else ()
        yield _start(built, Path(folder), stack, controllers, _Flags((*gates, *served), gates))


class _Flags(NamedTuple):
    """Further flags of the API server and of the scheduler."""

    server: Sequence[str]
    scheduler: Sequence[str]


def _start(built: Programs, folder: Path, stack: ExitStack, controllers: Sequence[str], flags: _Flags) -> Plane:
    ports = launches.Ports(*free_ports(len(launches.Ports.__annotations__)))
    credentials = Credentials(folder / "credentials", launches.server(ports))
    admin = credentials.kubeconfig("admin.kubeconfig", "tallygate-admin", "system:masters")
    ready = _readiness(credentials)
    started: dict[str, Component] = {}
    server = _disable_admission_plugins(launches.apiserver(built, folder, ports, credentials, flags.server))
    managed = (
        [_select_controllers(launches.controllers(built, folder, ports, credentials), controllers)]
        if controllers
        else []
    )
    for launch in (
        launches.etcd(built, folder, ports),
        server if controllers else _disable_watch_cache(server),
        *managed,
        _log_attempts(_unlimit(launches.scheduler(built, folder, ports, credentials, flags.scheduler))),
    ):
        component = Component(launch, folder, {"HOME": str(folder), "KUBECONFIG": ""})
        started[launch.name] = component
        stack.callback(component.stop)
        if launch.name != "etcd":
            until(f"{launch.name} is ready", partial(ready, component), _READY_WITHIN, component.log_end)
    return Plane(load_access(admin, folder), admin, started["kube-scheduler"], tuple(started.values()))


def _select_controllers(launch: Launch, controllers: Sequence[str]) -> Launch:
    """Return a launch with these controllers only, without their limit of requests."""
    others = (each for each in launch.command if not each.startswith("--controllers="))
    return _unlimit(replace(launch, command=(*others, f"--controllers={','.join(controllers)}")))


def _unlimit(launch: Launch) -> Launch:
    """Return a launch with more requests a second than the API server can answer."""
    return replace(launch, command=(*launch.command, "--kube-api-qps=10000", "--kube-api-burst=10000"))


def _log_attempts(launch: Launch) -> Launch:
    """Return a launch that logs the attempts for each pod, its feasible nodes, and what keeps it out of the queue."""
    return replace(
        launch,
        command=(*launch.command, "--v=2", "--vmodule=schedule_one=3,schedule_one_podgroup=3,scheduling_queue=4"),
    )


def _disable_admission_plugins(launch: Launch) -> Launch:
    """Return a launch without the admission plugins that need controllers."""
    return replace(launch, command=(*launch.command, f"--disable-admission-plugins={_NEEDS_CONTROLLERS}"))


def _disable_watch_cache(launch: Launch) -> Launch:
    """Return a launch without watch cache, whose lists wait for etcd; controllers need its bookmarks."""
    return replace(launch, command=(*launch.command, "--watch-cache=false"))


def _readiness(credentials: Credentials) -> Callable[[Component], bool]:
    trust = ssl.create_default_context(cafile=credentials.authority)
    # Without the proxy of the environment, because the server is on loopback.
    opener = build_opener(ProxyHandler({}), HTTPSHandler(context=trust))

    def ready(component: Component) -> bool:
        component.check()
        return component.is_ready(opener)

    return ready
