"""The cluster as a whole: made by the `kind` command under a name of its own, ready for pods, and deleted."""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from e2e.cluster_client import ConnectedCluster
from e2e.errors import BuildError, ClusterError
from e2e.kind.node import Node
from e2e.progress import run_command
from e2e.waiting import until

_MODULE = "sigs.k8s.io/kind@v0.33.0"
_READY_WITHIN = "300s"  # a busy machine with two cores needs a fraction of it
_RESTARTED_WITHIN = 300.0  # seconds; the kubelet waits longer each time that a container has ended
_OPTIONS = {"image": "KIND_NODE_IMAGE", "config": "KIND_CONFIG"}
_SHOWN_OUTPUT = 2000  # characters of what failed


def kind_command() -> tuple[str, ...]:
    """Return the command of kind: the one on PATH, or by Go.

    Raises:
        BuildError: if there is neither here.
    """
    kind, go = shutil.which("kind"), shutil.which("go")
    if kind is not None:
        return (kind,)
    if go is not None:
        return (go, "run", _MODULE)
    raise BuildError(
        "a kind cluster is made by the command `kind`, and there is neither that on PATH nor `go`, which could run it; "
        "install one of them (https://kind.sigs.k8s.io, https://go.dev/doc/install) and run this again"
    )


class KindCluster(ConnectedCluster):
    """A cluster that kind has made, by the folder of its kubeconfig."""

    def __init__(self, kind: Sequence[str], docker: str, name: str, kubeconfig: Path) -> None:
        super().__init__(kubeconfig, kubeconfig.parent)
        self._kind = kind
        self._docker = docker
        self._name = name

    def load(self, *images: str) -> None:
        """Put images of this machine's engine on every node.

        Raises:
            ClusterError: if kind fails; the text has what it says.
        """
        doing = f"loading {', '.join(images)} into the cluster"
        _run_kind((*self._kind, "load", "docker-image", *images, f"--name={self._name}"), doing)

    def node(self, name: str) -> Node:
        """Return a node, as the container that it is."""
        return Node(self._docker, name)

    def restart_api_server(self) -> None:
        """Kill the API server, and wait until a new one is ready with everything that depends on it.

        Raises:
            ClusterError: if it takes too long.
        """
        self.node(f"{self._name}-control-plane").replace_process("kube-apiserver")
        until(
            "the API server is ready", lambda: self.kubectl("get", "--raw=/readyz").returncode == 0, _RESTARTED_WITHIN
        )


@contextmanager
def kind_cluster(docker: str, folder: Path) -> Iterator[KindCluster]:
    """Run a cluster for as long as the block runs, ready for pods; `KIND_NODE_IMAGE` and `KIND_CONFIG` configure it.

    Raises:
        BuildError: if there is no kind here.
        ClusterError: if it cannot be made, or is not ready in time.
    """
    kind, name, kubeconfig = kind_command(), f"tallygate-{uuid4().hex[:8]}", folder / "kubeconfig"
    of_it = (f"--name={name}", f"--kubeconfig={kubeconfig}")
    options = [f"--{option}={os.environ[key]}" for option, key in _OPTIONS.items() if os.environ.get(key)]
    try:
        _run_kind(
            (*kind, "create", "cluster", *of_it, f"--wait={_READY_WITHIN}", *options), f"making the cluster {name}"
        )
        cluster = KindCluster(kind, docker, name, kubeconfig)
        _wait_for_pods(cluster)
        yield cluster
    finally:
        _run_kind((*kind, "delete", "cluster", *of_it), f"deleting the cluster {name}")


def _wait_for_pods(cluster: ConnectedCluster) -> None:
    """Wait until the namespace default accepts pods and names of Services are found: kind returns before that."""
    for waiting in (
        ("wait", "--for=create", "--namespace=default", "serviceaccount/default"),
        ("wait", "--for=create", "--namespace=kube-system", "deployment/coredns"),
        ("rollout", "status", "--namespace=kube-system", "deployment/coredns"),
    ):
        result = cluster.kubectl(*waiting, f"--timeout={_READY_WITHIN}")
        if result.returncode:
            raise ClusterError(f"kubectl {' '.join(waiting)}: {result.stderr.strip()}")


def _run_kind(command: Sequence[str], doing: str) -> None:
    done = run_command(command, doing)
    if done.returncode:
        end = (done.stdout + done.stderr)[-_SHOWN_OUTPUT:].strip()
        raise ClusterError(f"{doing} failed with {done.returncode}, and kind says:\n{end}")
