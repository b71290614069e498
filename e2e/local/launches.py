"""The command line of each component, in the order in which they start.

Flags are those of Kubernetes v1.36 (kubernetes.io, "Component tools") and etcd v3.6. Everything listens on loopback
only and writes into the cluster's folder only.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from e2e.local.build import Programs
from e2e.local.component import Launch
from e2e.local.credentials import Credentials

_LEASE = 40  # seconds, as a kubelet's
_HOST = "127.0.0.1"
_AUDIT_POLICY = Path(__file__).parent / "audit-policy.yaml"


@dataclass(frozen=True)
class Ports:
    """A free port for everything that listens."""

    etcd: int
    etcd_peers: int
    apiserver: int
    controllers: int
    scheduler: int
    kwok: int


def server(ports: Ports) -> str:
    """Return the API server's URL."""
    return f"https://{_HOST}:{ports.apiserver}"


def audit_log(folder: Path) -> Path:
    """Return the path of the API server's log of the requests of the gate's accounts (`audit-policy.yaml`)."""
    return folder / "audit.log"


def etcd(programs: Programs, folder: Path, ports: Ports) -> Launch:
    """Return the launch of etcd, which need not survive a power cut here."""
    clients, peers = f"http://{_HOST}:{ports.etcd}", f"http://{_HOST}:{ports.etcd_peers}"
    command = (
        str(programs.controlplane),
        "etcd",
        "--name=tallygate",
        f"--data-dir={folder / 'etcd'}",
        f"--listen-client-urls={clients}",
        f"--advertise-client-urls={clients}",
        f"--listen-peer-urls={peers}",
        f"--initial-advertise-peer-urls={peers}",
        f"--initial-cluster=tallygate={peers}",
        "--unsafe-no-fsync",
        "--log-level=warn",
    )
    return Launch("etcd", command, f"{clients}/readyz")


def apiserver(
    programs: Programs, folder: Path, ports: Ports, credentials: Credentials, arguments: Sequence[str] = ()
) -> Launch:
    """Return the launch of the API server, with RBAC and signed ServiceAccount tokens, and with further arguments.

    Endpoints may not be on loopback, so those of the Service `kubernetes` are not written.
    """
    command = (
        str(programs.controlplane),
        "kube-apiserver",
        f"--etcd-servers=http://{_HOST}:{ports.etcd}",
        f"--bind-address={_HOST}",
        f"--advertise-address={_HOST}",
        f"--secure-port={ports.apiserver}",
        "--endpoint-reconciler-type=none",
        f"--cert-dir={folder / 'apiserver'}",
        f"--tls-cert-file={credentials.serving}",
        f"--tls-private-key-file={credentials.serving_key}",
        f"--client-ca-file={credentials.authority}",
        *_front_proxy(credentials),
        "--authorization-mode=RBAC",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={credentials.token_public_key}",
        f"--service-account-signing-key-file={credentials.token_key}",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--allow-privileged",
        f"--audit-policy-file={_AUDIT_POLICY}",
        f"--audit-log-path={audit_log(folder)}",
        "--profiling=false",
        *arguments,
    )
    return Launch("kube-apiserver", command, f"{server(ports)}/readyz")


def controllers(
    programs: Programs, folder: Path, ports: Ports, credentials: Credentials, arguments: Sequence[str] = ()
) -> Launch:
    """Return the launch of all controllers, each with its own ServiceAccount, and with further arguments."""
    kubeconfig = credentials.kubeconfig("controllers.kubeconfig", "system:kube-controller-manager")
    command = (
        str(programs.controlplane),
        "kube-controller-manager",
        *_delegating(kubeconfig, ports.controllers, credentials),
        f"--cert-dir={folder / 'controllers'}",
        "--controllers=*",
        "--use-service-account-credentials",
        f"--service-account-private-key-file={credentials.token_key}",
        f"--root-ca-file={credentials.authority}",
        f"--cluster-signing-cert-file={credentials.authority}",
        f"--cluster-signing-key-file={credentials.authority_key}",
        f"--flex-volume-plugin-dir={folder / 'volume-plugins'}",
        *arguments,
    )
    return Launch("kube-controller-manager", command, f"https://{_HOST}:{ports.controllers}/healthz")


def scheduler(
    programs: Programs, folder: Path, ports: Ports, credentials: Credentials, arguments: Sequence[str] = ()
) -> Launch:
    """Return the launch of the scheduler in its default configuration, with further arguments."""
    kubeconfig = credentials.kubeconfig("scheduler.kubeconfig", "system:kube-scheduler")
    command = (
        str(programs.controlplane),
        "kube-scheduler",
        *_delegating(kubeconfig, ports.scheduler, credentials),
        f"--cert-dir={folder / 'scheduler'}",
        *arguments,
    )
    return Launch("kube-scheduler", command, f"https://{_HOST}:{ports.scheduler}/readyz")


def kwok(programs: Programs, ports: Ports, admin: Path) -> Launch:
    """Return the launch of KWOK, which simulates the kubelet of every node that is marked as fake.

    Nodes live by their leases. Without these KWOK writes into a node's status 20 to 25 s after its last change by
    any client: a node that cases change more often than that counts as dead after 50 s, and its pods as not ready,
    which nothing ever reverts.
    """
    command = (
        str(programs.kwok),
        f"--kubeconfig={admin}",
        "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
        f"--node-lease-duration-seconds={_LEASE}",
        f"--server-address={_HOST}:{ports.kwok}",
        *(f"--config={stage}" for stage in programs.stages),
    )
    return Launch("kwok", command, f"http://{_HOST}:{ports.kwok}/readyz")


def _delegating(kubeconfig: Path, port: int, credentials: Credentials) -> tuple[str, ...]:
    """Return the arguments of a component that asks the API server about its own callers; there is only one of each."""
    return (
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        f"--bind-address={_HOST}",
        f"--secure-port={port}",
        f"--tls-cert-file={credentials.serving}",
        f"--tls-private-key-file={credentials.serving_key}",
        "--leader-elect=false",
        "--profiling=false",
    )


def _front_proxy(credentials: Credentials) -> tuple[str, ...]:
    """Return the arguments for front proxies; no client here has that name, but other components wait for it."""
    return (
        f"--requestheader-client-ca-file={credentials.authority}",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
    )
