"""The development cluster of `make cluster`: a control plane, four nodes and the gate, until Ctrl-C."""

import shlex
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import click

from e2e.api import api
from e2e.command_output import run_kubectl
from e2e.errors import BuildError, ClusterError
from e2e.gates.asks import COMPONENT, AskServer, create_asks_account
from e2e.gates.process import GateProcess
from e2e.gates.running import HERE, LOOPBACK
from e2e.ledgers import define_ledgers, list_ledgers
from e2e.local.build import kubernetes_version
from e2e.local.cluster import LocalCluster
from e2e.local.component import start_new_process
from e2e.local.nodes import add_nodes, node
from e2e.namespaces import gates_namespace
from e2e.policy_files import SHIPPED_FILES
from e2e.self_registration import leave_to_gate, read_registration
from e2e.waiting import until
from tallygate.admission.webhook_configuration import DEFAULT_NAMESPACE
from tallygate.cli.framework import EXIT_INTERNAL_ERROR, EXIT_USAGE_ERROR
from tallygate.state.kubernetes.ask_address_store import ASK_NAME
from tallygate_certs.certificate_names import parse_names
from tallygate_certs.renewal import issue

_NODES = (
    node("gpus", {"nvidia.com/gpu": "8"}),
    node("dongles", {"example.com/dongle": "4"}),
    node("addresses", {}) | {"spec": {"podCIDR": "10.9.0.0/29", "podCIDRs": ["10.9.0.0/29"]}},
    node("bananas", {"pod.alpha.kubernetes.io/opaque-int-resource-bananas": "555"}),
)
_POLICIES = Path(__file__).parent / "policies" / "playground.yaml"
_WITHIN = 240.0  # seconds
_CERTIFICATES = "certs"
"""The folder of the certificate of the gate and of the server of asks."""

_LONG = 30 * 24 * 3600  # seconds for which the token of the server of asks is valid
_LOOK = 1.0  # seconds between two looks whether everything still runs

# Each command, and its result in a comment; the case of `make cluster` runs them in this order.
_COMMANDS = """
Whole units, and names that exist:
  kubectl create -f e2e/manifests/half.yaml          # refused: one and a half bananas
  kubectl create -f e2e/manifests/misspelt-gpu.yaml  # warned: no node has nvidia.com/gpus; did you mean nvidia.com/gpu?

Requests equal limits:
  kubectl create -f e2e/manifests/request-only.yaml  # refused: a request without its limit

A prediction before anything is stored:
  tallygate predict -f e2e/manifests/nine-gpus.yaml --policies={policies}  # never: no node has nine
  kubectl create -f e2e/manifests/nine-gpus.yaml  # stored, with the same warning

Something that no kubelet finds:
  kubectl create -f e2e/manifests/seat.yaml          # stored, with a warning: no node has example.com/seat
  tallygate advertise dongles example.com/seat=2     # checked, then written into the node's status
  kubectl get pod seat -o wide                       # it runs there
  tallygate advertise dongles example.com/seat-      # refused: the pod uses one

An address of its node for each pod of a namespace, without a request in the manifest:
  kubectl describe node addresses | grep example.com/ip  # 3: a policy publishes the 8 of its range, less 5
  kubectl create namespace addresses
  tallygate predict --namespace=addresses -f e2e/manifests/four-plain-pods.yaml --policies={policies}  # three fit
  kubectl create --namespace=addresses -f e2e/manifests/four-plain-pods.yaml
  kubectl get events --namespace=addresses | grep Insufficient  # the fourth waits, for the same reason
  sed -i 's/minus: 5/minus: 4/' {policies}/playground.yaml  # the node gets one more
  kubectl get pods --namespace=addresses | grep -c Running  # all four run

A cap over all namespaces, of three dongles. It is new and counts first what runs: it is enforced from {enforced} on.
  tallygate usage --policies={policies}  # until then its note says so
  kubectl create -f e2e/manifests/dongles.yaml  # six pods of a dongle each: three are created
  kubectl describe replicasets | grep exceeded  # the reason
  kubectl create namespace team-b
  kubectl create --namespace=team-b -f e2e/manifests/two-dongles.yaml  # refused: all namespaces share the cap

An answer before anything is sent, from the server of asks:
  tallygate ask -f e2e/manifests/two-dongles.yaml  # refused: the cap is full

Policies that change while the gate runs:
  cp policies/examples/licences.yaml {policies}/
  kubectl create -f e2e/manifests/two-dongles.yaml  # refused by the new rule, too: one dongle a pod
"""


def main() -> int:
    """Start everything, print how to use it, wait for Ctrl-C, and return the exit code."""
    try:
        with LocalCluster() as cluster, _gate(cluster) as (gate, asks):
            add_nodes(cluster, *_NODES)
            _show(cluster, gate, asks)
            while True:
                cluster.check()
                gate.check()
                asks.check()
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
def _gate(cluster: LocalCluster) -> Iterator[tuple[GateProcess, AskServer]]:
    """Run a registered gate that watches the cluster and a server of asks, with policies that people may edit."""
    define_ledgers(cluster)
    folder = cluster.folder
    asks = _create_asks(cluster)
    arguments = (
        "--cluster=kubeconfig",
        f"--kubeconfig={cluster.kubeconfig}",
        "--ledgers=kubernetes",
        f"--namespace={gates_namespace(cluster)}",
        "--publish-nodes=on",
        f"--ask-url={asks.url}",
    )
    certificates = folder / _CERTIFICATES
    gate = GateProcess(folder / "gate", arguments=arguments, certificates=certificates, new_process=True)
    try:
        gate.write_policies({**SHIPPED_FILES, _POLICIES.name: _POLICIES.read_text(encoding="utf-8")})
        gate.start()
        # As an installation does: so kinds of other projects are registered while the API server serves them.
        leave_to_gate(cluster, gate)
        until("it has registered itself", lambda: read_registration(gate)["state"] == "complete", _WITHIN, gate.log)
        with asks:
            until("its address is published", partial(_is_published, cluster), _WITHIN, gate.log)
            yield gate, asks
    finally:
        gate.stop()


def _create_asks(cluster: LocalCluster) -> AskServer:
    """Make a server of asks, which does not run yet, with its rights and the certificate of the gate."""
    certificates = cluster.folder / _CERTIFICATES
    issue(certificates, parse_names([HERE, LOOPBACK]), datetime.now(UTC))
    kubeconfig = create_asks_account(cluster, cluster.folder, _LONG)
    run_kubectl(cluster, "apply", f"--filename={COMPONENT / 'address.yaml'}")
    return AskServer(
        cluster.folder / "asks",
        kubeconfig,
        cluster.folder / "gate" / "policies",
        start=start_new_process,
        arguments=["--page=on"],
        certificates=certificates,
    )


def _is_published(cluster: LocalCluster) -> bool:
    path = f"/api/v1/namespaces/{DEFAULT_NAMESPACE}/configmaps/{ASK_NAME}"
    return "url" in api(cluster.kubeconfig).get(path).get("data", {})


def _find_enforcement_time(cluster: LocalCluster, gate: GateProcess) -> str:
    """Return from when on the caps are enforced, as messages of the gate have it."""
    times: list[str] = []

    def is_known() -> bool:
        times[:] = [ledger["status"].get("activeFrom", "") for ledger in list_ledgers(cluster, DEFAULT_NAMESPACE)]
        return bool(times) and all(times)

    until("the ledgers say from when on they are enforced", is_known, _WITHIN, gate.log)
    return f"{datetime.fromisoformat(max(times)):%H:%M:%S} UTC"


def _show(cluster: LocalCluster, gate: GateProcess, asks: AskServer) -> None:
    names = ", ".join(each["metadata"]["name"] for each in _NODES)
    click.echo(
        f"Kubernetes {kubernetes_version()} runs on this machine, with the nodes {names}; logs: {cluster.folder}\n"
        f"Every request passes the gate on https://{LOOPBACK}:{gate.port}; its policies: {gate.policies}\n"
        f"A server of asks answers on {asks.url}, and its pages are {asks.url}/page/"
    )
    click.echo("In another terminal, in this folder:\n")
    click.echo(f"  export KUBECONFIG={shlex.quote(str(cluster.kubeconfig))}")
    programs = {"kubectl": cluster.kubectl_program.parent, "tallygate": Path(sys.executable).parent}
    for folder in (folder for name, folder in programs.items() if shutil.which(name) is None):
        click.echo(f'  export PATH={shlex.quote(str(folder))}:"$PATH"')
    click.echo(
        _COMMANDS.format(policies=shlex.quote(str(gate.policies)), enforced=_find_enforcement_time(cluster, gate))
    )
    click.echo("Is all of it well? What is registered, and which kinds of other projects?")
    click.echo(f"  tallygate doctor --monitor={gate.monitor}  # no check is FAIL\n")
    click.echo("Ctrl-C stops it and leaves nothing behind.")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where a shell had it ignored
    sys.exit(main())
