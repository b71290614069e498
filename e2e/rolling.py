"""Two gates behind one address, with ledgers in the cluster, and clients that create pods under a cap meanwhile."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Final

from e2e.gates.process import GateProcess
from e2e.ledgers import define_ledgers, delete_ledgers, expire_leases
from e2e.load import STORED, Answer, Clients
from e2e.namespaces import label
from e2e.pods import Pod, pod
from e2e.policy_files import SHIPPED_FILES
from e2e.ports import Cluster, NotHereError, Site
from e2e.registering import register, unregister
from e2e.stress.replicas import Front, Replicas
from e2e.waiting import until
from tallygate_certs.renewal import renew

MEANWHILE: Final = 50
"""Pods that are created before the next step."""

FEW: Final = 60
"""The dongles of the cap `few`."""

WITHIN: Final = 240.0
"""Seconds that a wait may take; a busy machine is slow."""

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
    """Return the shipped policies and two caps: on namespaces with the label `dongles=many`, and with `dongles=few`."""
    caps = {"many": many, "few": FEW}
    return SHIPPED_FILES | {f"{name}.yaml": _CAP.format(name=name, hard=most) for name, most in caps.items()}


def get_arguments(cluster: Cluster, own: str) -> tuple[str, ...]:
    """Return the arguments of a gate that watches the cluster and stores its ledgers in its namespace `own`."""
    following = ("--cluster=kubeconfig", f"--kubeconfig={cluster.kubeconfig}", "--ledgers=kubernetes")
    return (*following, f"--namespace={own}", "--in-flight-bound=2s")


@contextmanager
def run_two_gates(  # noqa: PLR0913  # as `Replicas`
    site: Site,
    own: str,
    folder: Path,
    front: Front,
    *,
    own_arguments: Sequence[Sequence[str]] = (),
    made: type[GateProcess] = GateProcess,
) -> Iterator[Replicas]:
    """Run two gates with what `front` makes in front of them, registered for as long as the block runs.

    `own_arguments` has further arguments of the command line of each; `made` is their class.

    Raises:
        NotHereError: if the site's gate is no process on this machine.
        ClusterError: if they do not start, or are not called.
    """
    if not isinstance(site.gate, GateProcess):
        raise NotHereError("it is about gates of its own, beside the one of the site")
    cluster = site.cluster
    define_ledgers(cluster)
    arguments = get_arguments(cluster, own)
    replicas = Replicas(folder, _REPLICAS, arguments, front, own_arguments=own_arguments, made=made)
    replicas.write_policies(policies())
    try:
        replicas.start()
        register(cluster, replicas)
        yield replicas
        unregister(cluster)
    finally:
        replicas.stop()
        delete_ledgers(cluster, own)


@contextmanager
def clients_under(site: Site, namespace: str, cap: str) -> Iterator[Clients]:
    """Yield clients of a namespace under the cap of this name, whose ledger is active; one pod, `first`, exists."""
    label(site.cluster, namespace, {"dongles": cap})
    with Clients(site.cluster, namespace) as clients:
        until("the cap is active", lambda: clients.create_one(pod(site, "first")).status in _THERE, WITHIN)
        yield clients


def start_missing(cluster: Cluster, own: str, replicas: Replicas) -> None:
    """Start every gate that does not run; a case may have killed one.

    Raises:
        ClusterError: if one does not start.
    """
    for gate in replicas.each:
        if not gate.runs:
            expire_leases(cluster, own)
            gate.start()


def wait_for_leader(replicas: Replicas) -> GateProcess:
    """Wait until there is exactly one leader, and return it; after a restart no gate leads for a moment.

    Raises:
        ClusterError: if it takes too long.
    """
    found: list[GateProcess] = []

    def is_one() -> bool:
        found[:] = replicas.leaders()
        return len(found) == 1

    until("one of them is the leader", is_one, WITHIN)
    return found[0]


def restart_each(replicas: Replicas, meanwhile: Callable[[], None]) -> None:
    """Stop and start one gate after the other; `meanwhile` is called after each step."""
    for gate in replicas.each:
        gate.stop()
        meanwhile()
        gate.start()
        meanwhile()


def renew_certificates(replicas: Replicas, meanwhile: Callable[[], None]) -> None:
    """Renew the certificate of all, twice; `meanwhile` is called after each."""
    for each in range(2):
        renew(replicas.certificates, datetime.now(UTC) + timedelta(seconds=each), force=True)
        replicas.reload_certificate()
        meanwhile()


def create_dongle_pods(site: Site) -> Callable[[int], Pod]:
    """Return a function that makes pods with a request of one dongle, named by number."""
    return lambda number: pod(site, f"pod-{number}")


def find_failed(answers: list[Answer]) -> list[Answer]:
    """Return the answers of creates that were not stored."""
    return [each for each in answers if each.status != STORED]
