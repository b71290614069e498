"""Two gates behind one address, whose ledgers are in the cluster, and clients who create pods under a cap meanwhile."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Final

from certs.renewal import renew
from e2e.api import api
from e2e.gates.process import GateProcess
from e2e.ledgers import define_ledgers, forget_ledgers
from e2e.load import STORED, Answer, Clients
from e2e.namespaces import label
from e2e.pods import Pod, pod
from e2e.policy_files import SHIPPED_FILES
from e2e.ports import Cluster, NotHereError, Site
from e2e.registering import register, unregister
from e2e.storm.replicas import Front, Replicas
from e2e.waiting import until

MEANWHILE: Final = 50
"""Pods that are created before the next step."""

FEW: Final = 60
"""Dongles that the cap `few` allows."""

WITHIN: Final = 240.0
"""Seconds until something is so; a busy machine is slow."""

_REPLICAS = 2
_MANY = 100_000  # dongles
_THERE = (STORED, HTTPStatus.CONFLICT)
_CAP = """\
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {{name: {name}}}
spec:
  namespaces: {{selector: {{matchLabels: {{dongles: {name}}}}}}}
  hard: {{example.com/dongle: {hard}}}
"""


def policies(many: int = _MANY) -> dict[str, str]:
    """The shipped policies and two caps: on namespaces with the label `dongles=many`, and with `dongles=few`."""
    caps = {"many": many, "few": FEW}
    return SHIPPED_FILES | {f"{name}.yaml": _CAP.format(name=name, hard=most) for name, most in caps.items()}


def follows(cluster: Cluster, own: str) -> tuple[str, ...]:
    """The arguments of a gate that follows the cluster and keeps its ledgers in its namespace `own`."""
    following = ("--cluster=kubeconfig", f"--kubeconfig={cluster.kubeconfig}", "--ledgers=kubernetes")
    return (*following, f"--namespace={own}", "--in-flight-bound=2s")


@contextmanager
def two_gates(site: Site, own: str, folder: Path, front: Front, *, relayed: bool = False) -> Iterator[Replicas]:
    """Two with what `front` makes in front of them, registered for as long as the block runs; relays are `Replicas`'.

    Raises:
        NotHereError: the site's gate is no process on this machine.
        ClusterError: they do not start, or are not called.
    """
    if not isinstance(site.gate, GateProcess):
        raise NotHereError("it is about gates of its own, beside the one of the site")
    cluster = site.cluster
    define_ledgers(cluster)
    replicas = Replicas(folder, _REPLICAS, follows(cluster, own), front, relayed=relayed)
    replicas.write_policies(policies())
    try:
        replicas.start()
        register(cluster, replicas)
        yield replicas
        unregister(cluster)
    finally:
        replicas.stop()
        forget_ledgers(cluster, own)


@contextmanager
def clients_under(site: Site, namespace: str, cap: str) -> Iterator[Clients]:
    """Clients of a namespace under the cap of this name, whose ledger is open; one pod, `first`, is there."""
    label(site.cluster, namespace, {"dongles": cap})
    with Clients(site.cluster, namespace) as clients:
        until("the cap is open", lambda: clients.create_one(pod(site, "first")).status in _THERE, WITHIN)
        yield clients


def start_those_that_ended(cluster: Cluster, own: str, replicas: Replicas) -> None:
    """Let all run, of which a case may have killed one.

    Raises:
        ClusterError: one does not start.
    """
    for gate in replicas.each:
        if not gate.runs:
            let_leases_go(cluster, own)
            gate.start()


def let_leases_go(cluster: Cluster, own: str) -> None:
    """Delete the Leases of gates: that of one that was killed would last a while.

    Raises:
        ClusterError: that is refused.
    """
    api(cluster.kubeconfig).delete(f"/apis/coordination.k8s.io/v1/namespaces/{own}/leases")


def leader(replicas: Replicas) -> GateProcess:
    """The one that keeps the ledgers; after a restart none does for a moment.

    Raises:
        ClusterError: it is not one in time.
    """
    found: list[GateProcess] = []

    def is_one() -> bool:
        found[:] = replicas.leaders()
        return len(found) == 1

    until("one of them keeps", is_one, WITHIN)
    return found[0]


def restart_each(replicas: Replicas, meanwhile: Callable[[], None]) -> None:
    """End one after the other in order, and start it again; `meanwhile` is called after each."""
    for gate in replicas.each:
        gate.stop()
        meanwhile()
        gate.start()
        meanwhile()


def renew_certificates(replicas: Replicas, meanwhile: Callable[[], None]) -> None:
    """Renew the certificate of all, twice; `meanwhile` is called after each."""
    for each in range(2):
        renew(replicas.certificates, datetime.now(UTC) + timedelta(seconds=each), force=True)
        replicas.take_up_certificate()
        meanwhile()


def dongles(site: Site) -> Callable[[int], Pod]:
    """Makes pods that ask for a dongle each, with names by number."""
    return lambda number: pod(site, f"pod-{number}")


def failed(answers: list[Answer]) -> list[Answer]:
    """Those of what was not stored."""
    return [each for each in answers if each.status != STORED]
