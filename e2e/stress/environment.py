"""The environment of every stress test: a control plane with CapLedgers, gates of its own, and namespaces."""

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

from e2e.bench.client import Access, load_access
from e2e.errors import ClusterError
from e2e.ledgers import define_ledgers, delete_leases, get_ledgers_path
from e2e.local.cluster import LocalCluster
from e2e.policy_files import SHIPPED_FILES
from e2e.registering import register, unregister
from e2e.self_registration import leave_to_gates
from e2e.stress.replicas import Replicas
from e2e.tcp_proxy import TcpProxy
from tallygate.admission.workload_resources import WorkloadResource

_HOME = "tallygate-system"


@dataclass(frozen=True)
class StressEnvironment:
    """A cluster with nothing registered, and its access; `folder` is for files of the tests."""

    cluster: LocalCluster
    access: Access
    folder: Path

    @property
    def ledgers_path(self) -> str:
        """The path of the ledgers of its gates."""
        return get_ledgers_path(_HOME)

    @contextmanager
    def gates(  # noqa: PLR0913  # the parts of a setup
        self,
        count: int,
        caps: Sequence[dict[str, Any]],
        ledgers: str,
        bound: float,
        kubeconfig: Path | None = None,
        *,
        workload_resources: Sequence[WorkloadResource] = (),
    ) -> Iterator[Replicas]:
        """Run `count` gates under these caps, registered, for as long as the block runs.

        `ledgers` is the place of their ledgers, `bound` the in-flight bound in seconds, `kubeconfig` another way to the
        API server than the usual one, `workload_resources` those of other projects that are registered too.

        Raises:
            ClusterError: if they do not start, or are not called.
        """
        arguments = (
            "--cluster=kubeconfig",
            f"--kubeconfig={kubeconfig or self.cluster.kubeconfig}",
            f"--ledgers={ledgers}",
            f"--in-flight-bound={bound:g}s",
            "--new-caps=wait",  # no cap is ever exceeded, from its first request on
        )
        gates = Replicas(self.folder / uuid4().hex[:8], count, arguments)
        gates.write_policies(policies(caps))
        with ExitStack() as ends:
            ends.callback(self.delete_ledgers)
            ends.callback(gates.stop)
            gates.start()
            ends.callback(unregister, self.cluster)
            register(self.cluster, gates, workload_resources=workload_resources)
            yield gates

    @contextmanager
    def registering_gates(self, count: int, bound: float) -> Iterator[Replicas]:
        """Run `count` gates that register themselves for what their policies concern, with the shipped policies.

        `bound` is the in-flight bound in seconds. A new cap admits until it is counted.

        Raises:
            ClusterError: if they do not start, or do not register themselves in time.
        """
        arguments = (
            "--cluster=kubeconfig",
            f"--kubeconfig={self.cluster.kubeconfig}",
            "--ledgers=kubernetes",
            f"--in-flight-bound={bound:g}s",
            "--new-caps=admit",
        )
        gates = Replicas(self.folder / uuid4().hex[:8], count, arguments)
        with ExitStack() as ends:
            ends.callback(delete_leases, self.cluster, _HOME)
            ends.callback(self.delete_ledgers)
            ends.callback(gates.stop)
            gates.start()
            ends.callback(unregister, self.cluster)
            leave_to_gates(self.cluster, gates)
            yield gates

    @contextmanager
    def byway(self) -> Iterator[tuple[TcpProxy, Path]]:
        """Yield a way to the API server that can be cut and stalled, and a kubeconfig that takes it."""
        with TcpProxy(self.access.port) as proxy:
            content = json.loads(self.cluster.kubeconfig.read_text())
            for each in content["clusters"]:
                each["cluster"]["server"] = f"https://{self.access.host}:{proxy.port}"
            kubeconfig = self.folder / f"{uuid4().hex[:8]}.kubeconfig"
            kubeconfig.touch(mode=0o600)
            kubeconfig.write_text(json.dumps(content))
            yield proxy, kubeconfig

    @contextmanager
    def namespaces(self, count: int = 1, *others: dict[str, Any]) -> Iterator[list[str]]:
        """Create namespaces that accept pods, `stress-…`, and further objects in the first of them."""
        names = [f"stress-{uuid4().hex[:8]}" for _ in range(count)]
        self.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in names])
        for name in names:
            self.kubectl("wait", "--for=create", "--timeout=60s", f"--namespace={name}", "serviceaccount/default")
        for each in others:
            each["metadata"]["namespace"] = names[0]
        self.apply(list(others))
        try:
            yield names
        finally:
            for name in names:
                self.kubectl("delete", "pods", "--all", "--wait=false", "--force", f"--namespace={name}")
            self.kubectl("delete", "namespace", "--wait=false", *names)

    def delete_ledgers(self, part: str = "") -> None:
        """Delete every ledger with this in its name."""
        home = f"--namespace={_HOME}"
        for name in self.kubectl("get", "capledgers", home, "--output=name").split():
            if part in name:
                self.kubectl("delete", name, home, "--wait=false")

    def apply(self, objects: list[dict[str, Any]]) -> None:
        """Apply these objects."""
        if objects:
            listed = {"apiVersion": "v1", "kind": "List", "items": objects}
            self.kubectl("apply", "--server-side", "--filename=-", stdin=json.dumps(listed))

    def kubectl(self, *args: str, stdin: str | None = None) -> str:
        """Run kubectl and return what it prints.

        Raises:
            ClusterError: if it fails.
        """
        done = self.cluster.kubectl(*args, stdin=stdin)
        if done.returncode:
            raise ClusterError(f"kubectl {args[0]}: {done.stderr.strip()}")
        return done.stdout


@contextmanager
def prepare_environment(cluster: LocalCluster) -> Iterator[StressEnvironment]:
    """Prepare the cluster for stress tests.

    Raises:
        ClusterError: if it refuses something.
    """
    with TemporaryDirectory(prefix="tallygate-stress-") as folder:
        made = StressEnvironment(cluster, load_access(cluster.kubeconfig, Path(folder)), Path(folder))
        define_ledgers(cluster)
        made.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _HOME}}])
        yield made


def policies(caps: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Return the shipped policies and these caps, as files."""
    return SHIPPED_FILES | {f"{each['metadata']['name']}.yaml": json.dumps(each) for each in caps}
