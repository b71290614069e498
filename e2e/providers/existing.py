"""The provider of an existing cluster: used with care, and left as it was found."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NoReturn

from e2e.borrowed_node import borrow_node
from e2e.cluster_client import ConnectedCluster, find_kubectl
from e2e.errors import UnfitError
from e2e.gates.deployment import GateDeployment, Pod
from e2e.gates.process import GateProcess
from e2e.installing import install_temporarily
from e2e.ports import Gate, NotHereError, Site
from e2e.registering import unregister
from tallygate.admission.webhook_configuration import CONFIGURATION_NAME, DEFAULT_NAMESPACE

_REGISTRATIONS = "mutatingwebhookconfigurations,validatingwebhookconfigurations"


@contextmanager
def existing(kubeconfig: Path, context: str, image: str, host: str) -> Iterator[Site]:
    """Use the cluster of this kubeconfig's context, or of its current one when `context` is empty.

    The gate is a Deployment of `image`, which the cluster has or can pull; without one it is a process on this machine,
    which the API server reaches at `host`.

    Raises:
        UnfitError: if it must not be used, because a gate is there, or it cannot, because it or a fitting node is not.
        BuildError: if no kubectl here fits it, and none can be built.
        ClusterError: if something is refused, or does not start.
    """
    with TemporaryDirectory(prefix="tallygate-existing-") as name:
        folder = Path(name)
        cluster = ConnectedCluster(_own_kubeconfig(kubeconfig, context, folder), folder)
        _refuse_if_taken(cluster)
        with borrow_node(cluster) as lent, _gate(cluster, folder, image, host) as gate:
            try:
                yield Site(cluster, gate, lent.node, lent.image, lent.own)
            finally:
                unregister(cluster)
                cluster.kubectl(
                    "delete", "namespace", DEFAULT_NAMESPACE, "--ignore-not-found"
                )  # a case may have made it


def _own_kubeconfig(kubeconfig: Path, context: str, folder: Path) -> Path:
    """Write a kubeconfig of its own with that context as its current one, and return its path."""
    if not kubeconfig.is_file():
        raise UnfitError(f"{kubeconfig}: there is no such kubeconfig; name the cluster's by --kubeconfig")
    command = [
        str(find_kubectl()),
        f"--kubeconfig={kubeconfig}",
        "config",
        "view",
        "--minify",
        "--flatten",
        "--raw",
    ]
    of_context = [f"--context={context}"] if context else []
    done = subprocess.run([*command, *of_context], capture_output=True, text=True, check=False)  # noqa: S603  no shell
    if done.returncode:
        raise UnfitError(f"{kubeconfig}: {done.stderr.strip()}")
    own = folder / "kubeconfig"
    own.touch(mode=0o600)
    own.write_text(done.stdout)
    return own


def _refuse_if_taken(cluster: ConnectedCluster) -> None:
    for kind, name in ((_REGISTRATIONS, CONFIGURATION_NAME), ("namespace", DEFAULT_NAMESPACE)):
        done = cluster.kubectl("get", kind, name, "--ignore-not-found", "--output=name")
        if done.returncode:
            raise UnfitError(f"the cluster cannot be asked whether a gate is there: {done.stderr.strip()}")
        if done.stdout:
            raise UnfitError(
                f"{', '.join(done.stdout.split())} is there already, and the suite would take it for its own; "
                "run it against a cluster without tallygate, or remove that one first"
            )


@contextmanager
def _gate(cluster: ConnectedCluster, folder: Path, image: str, host: str) -> Iterator[Gate]:
    if image:
        with install_temporarily(cluster, image) as names:
            yield GateDeployment(cluster, names, folder, _out_of_reach)
        return
    gate = GateProcess(folder / "gate", host, new_process=True)
    try:
        yield gate
    finally:
        gate.stop()


def _out_of_reach(_: Pod) -> NoReturn:
    raise NotHereError(
        "the gate's processes run on a node of a cluster that is there already, out of the suite's reach"
    )
