"""The part of a control plane that scheduling needs: etcd, the API server, the scheduler, and controllers if named.

No kubelets, and no controllers that were not asked for: whatever is stored stays as it was written, until the scheduler
binds or preempts.
"""

import signal
import ssl
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.request import HTTPSHandler, ProxyHandler, build_opener

from e2e.bench.client import Access, access
from e2e.local import launches
from e2e.local.build import Programs, programs
from e2e.local.component import Component, Launch
from e2e.local.credentials import Credentials
from e2e.local.ports import free_ports
from e2e.waiting import until

_READY_WITHIN = 120.0  # seconds
# What they wait for would be written by controllers: ServiceAccounts, readiness, the removal of finalizers.
_NEEDS_CONTROLLERS = "ServiceAccount,TaintNodesByCondition,StorageObjectInUseProtection"


@dataclass(frozen=True)
class Plane:
    """A running one: how the API server is reached, and the scheduler's process."""

    access: Access
    scheduler: Component
    components: tuple[Component, ...]

    def check(self) -> None:
        """See that everything still runs.

        Raises:
            ClusterError: something has ended; the text has the end of its log.
        """
        for component in self.components:
            component.check()

    def ask_for_dump(self) -> None:
        """Have the scheduler write what is in its cache into its log (scheduler/backend/cache/debugger, v1.36)."""
        self.scheduler.signal(signal.SIGUSR2)


@contextmanager
def plane(*controllers: str) -> Iterator[Plane]:
    """Start one with these controllers and wait until it is ready; everything is gone when the block ends.

    Raises:
        BuildError: the programs cannot be had on this machine.
        ClusterError: something does not start.
    """
    built = programs()
    with TemporaryDirectory(prefix="tallygate-plane-") as folder, ExitStack() as ends:
        yield _started(built, Path(folder), ends, controllers)


def _started(built: Programs, folder: Path, ends: ExitStack, controllers: Sequence[str]) -> Plane:
    ports = launches.Ports(*free_ports(len(launches.Ports.__annotations__)))
    credentials = Credentials(folder / "credentials", launches.server(ports))
    admin = credentials.kubeconfig("admin.kubeconfig", "tallygate-admin", "system:masters")
    ready = _readiness(credentials)
    started: dict[str, Component] = {}
    server = _alone(launches.apiserver(built, folder, ports, credentials))
    managed = [_only(launches.controllers(built, folder, ports, credentials), controllers)] if controllers else []
    for launch in (
        launches.etcd(built, folder, ports),
        server if controllers else _uncached(server),
        *managed,
        _telling(launches.scheduler(built, folder, ports, credentials)),
    ):
        component = Component(launch, folder, {"HOME": str(folder), "KUBECONFIG": ""})
        started[launch.name] = component
        ends.callback(component.stop)
        if launch.name != "etcd":
            until(f"{launch.name} is ready", partial(ready, component), _READY_WITHIN, component.log_end)
    return Plane(access(admin, folder), started["kube-scheduler"], tuple(started.values()))


def _only(launch: Launch, controllers: Sequence[str]) -> Launch:
    """These controllers, which may ask as often as they like."""
    kept = (each for each in launch.command if not each.startswith("--controllers="))
    own = (f"--controllers={','.join(controllers)}", "--kube-api-qps=1000", "--kube-api-burst=1000")
    return replace(launch, command=(*kept, *own))


def _telling(launch: Launch) -> Launch:
    """It says of each pod that it binds how many nodes would have done."""
    return replace(launch, command=(*launch.command, "--v=2"))


def _alone(launch: Launch) -> Launch:
    """Without what needs controllers."""
    return replace(launch, command=(*launch.command, f"--disable-admission-plugins={_NEEDS_CONTROLLERS}"))


def _uncached(launch: Launch) -> Launch:
    """A list from a cache waits until etcd says how old it is; but controllers want to be told how new all is."""
    return replace(launch, command=(*launch.command, "--watch-cache=false"))


def _readiness(credentials: Credentials) -> Callable[[Component], bool]:
    trust = ssl.create_default_context(cafile=credentials.authority)
    # Without a proxy, whatever the environment says: loopback is meant.
    opener = build_opener(ProxyHandler({}), HTTPSHandler(context=trust))

    def ready(component: Component) -> bool:
        component.check()
        return component.is_ready(opener)

    return ready
