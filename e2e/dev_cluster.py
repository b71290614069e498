"""The development cluster of `make cluster`: a control plane, three nodes and the gate, until Ctrl-C."""

import shlex
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import click

from e2e.errors import BuildError, ClusterError
from e2e.gates.process import GateProcess
from e2e.local.build import kubernetes_version
from e2e.local.cluster import LocalCluster
from e2e.local.nodes import add_nodes, node
from e2e.registering import register
from tallygate.webhook.cli.framework import EXIT_INTERNAL_ERROR, EXIT_USAGE_ERROR

_NODES = (
    node("gpus", {"nvidia.com/gpu": "8"}),
    node("dongles", {"example.com/dongle": "4"}),
    node("bananas", {"pod.alpha.kubernetes.io/opaque-int-resource-bananas": "555"}),
)
_LOOK = 1.0  # seconds between two looks whether everything still runs

_NEXT = """
What to try next:
  kubectl create -f e2e/manifests/half.yaml         # refused: one and a half bananas
  kubectl create -f e2e/manifests/dongles.yaml      # six pods of a dongle each, and there are four dongles
  kubectl get pods                                  # four Running, two Pending
  kubectl describe pods | grep Insufficient         # why
  cp policies/examples/licences.yaml {policies}/
  kubectl create -f e2e/manifests/two-dongles.yaml  # refused by the new policy: one dongle a pod

Ctrl-C stops it and leaves nothing behind."""


def main() -> int:
    """Start everything, print how to use it, wait for Ctrl-C, and return the exit code."""
    try:
        with LocalCluster() as cluster, _gate(cluster) as gate:
            add_nodes(cluster, *_NODES)
            _show(cluster, gate)
            while True:
                cluster.check()
                gate.check()
                time.sleep(_LOOK)
    except KeyboardInterrupt:
        click.echo("\nstopped")
        return 0
    except BuildError as error:
        click.echo(f"tallygate: {error}", err=True)
        return EXIT_USAGE_ERROR
    except ClusterError as error:
        click.echo(f"tallygate: {error}", err=True)
        return EXIT_INTERNAL_ERROR


@contextmanager
def _gate(cluster: LocalCluster) -> Iterator[GateProcess]:
    """Run a registered gate with policies of its own that people may edit."""
    gate = GateProcess(cluster.folder / "gate", new_process=True)
    try:
        gate.start()
        register(cluster, gate)
        yield gate
    finally:
        gate.stop()


def _show(cluster: LocalCluster, gate: GateProcess) -> None:
    names = ", ".join(each["metadata"]["name"] for each in _NODES)
    click.echo(
        f"Kubernetes {kubernetes_version()} runs on this machine, with the nodes {names}; logs: {cluster.folder}\n"
        f"Every request passes the gate on {gate.reached.base}; its policies: {gate.policies}"
    )
    click.echo("In another terminal, in this folder:\n")
    click.echo(f"  export KUBECONFIG={shlex.quote(str(cluster.kubeconfig))}")
    if shutil.which("kubectl") is None:
        click.echo(f'  export PATH={shlex.quote(str(cluster.kubectl_program.parent))}:"$PATH"')
    click.echo(_NEXT.format(policies=shlex.quote(str(gate.policies))))


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where a shell had it ignored
    sys.exit(main())
