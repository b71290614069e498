"""Every setting of the server, in one table: flags, variables, file keys and documentation are all derived from it."""
# ruff: noqa: RUF009 - a field's default is made by `_option`, once, and is immutable

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from webhook.server.settings.kinds import ADDRESS, COUNT, DURATION, PATH, PATHS, SIZE, TEXT, Address, Kind, one_of

ENVIRONMENT_PREFIX = "TALLYGATE_"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Option:
    """One setting as it is written: its name, what it takes, its default as text (empty: none), and what it means."""

    name: str
    kind: Kind[Any]
    default: str
    meaning: str

    @property
    def flag(self) -> str:
        """`--listen`."""
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        """`TALLYGATE_LISTEN`."""
        return ENVIRONMENT_PREFIX + self.name.upper()


def _option(kind: Kind[T], default: str, meaning: str, absent: Any = None) -> Any:
    """A field of `Settings` that carries its `Option`; `absent` is its value when there is no default to read."""
    value = kind.read(default) if default else absent
    return field(default=value, metadata={"kind": kind, "default": default, "meaning": meaning})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the server runs with. Durations are seconds, sizes bytes."""

    policies: tuple[Path, ...] = _option(
        PATHS, "", "Policy files, and folders of them. Without any, the shipped policies are in force.", absent=()
    )
    listen: Address = _option(ADDRESS, "0.0.0.0:8443", "Where the API server reaches the gate, by HTTPS.")
    monitor: Address = _option(
        ADDRESS, "0.0.0.0:9090", "Where metrics and health are served, by plain HTTP. Keep it inside the cluster."
    )
    tls_cert: Path | None = _option(
        PATH, "", "The serving certificate and its chain, PEM. When the file changes, it is taken up without a restart."
    )
    tls_key: Path | None = _option(PATH, "", "The private key of the serving certificate, PEM.")
    tls_secret: str = _option(
        TEXT,
        "",
        "In place of both: a Secret, as NAMESPACE/NAME. The gate makes it where it is not there, serves with what is "
        "in it, renews it in time, and tells API servers by caBundle whom to trust, in the cluster that is followed, "
        "else in the one it runs in. Any number of replicas may do so (docs/certificates.md).",
        absent="",
    )
    tls_folder: Path | None = _option(
        PATH,
        "",
        "Where what tls_secret holds is kept for the server: a volume in memory that outlives the container, so that "
        "it can start while the API server is away. Without it, a folder that is gone when it ends.",
    )
    tls_settling: float = _option(
        DURATION,
        "1h",
        "How long a new authority of tls_secret is published before it signs what is served: longer than any API "
        "server may take to hear of it. Less is for tests only.",
    )
    tls_min_version: str = _option(one_of("1.2", "1.3"), "1.3", "The oldest version of TLS that is spoken.")
    client_ca_file: Path | None = _option(
        PATH,
        "",
        "Certificates of authorities, PEM. Only a client with a certificate from one of them is served. The name in it "
        "cannot be checked, so use an authority that signs for nobody but the API server.",
    )
    token_file: Path | None = _option(
        PATH,
        "",
        "Secret path segments, one a line. With it the gate answers under /v1/admit/TOKEN/ only. Several lines are all "
        "valid, so that a token can be changed without a gap. Read again when the file changes.",
    )
    namespaces_file: Path | None = _option(
        PATH,
        "",
        "Namespaces with their labels (kubectl get namespaces -o json), for policies that select by label. Without it "
        "labels are unknown, and what depends on them is said to be.",
    )
    cluster: str = _option(
        one_of("none", "in-cluster", "kubeconfig"),
        "none",
        "The cluster whose namespaces and pods are followed: none, that of the pod this runs in, or that of a "
        "kubeconfig. With it labels are known, promises are settled against the pods that are there, and after a start "
        "nothing is promised under a cap until in_flight_bound has passed.",
    )
    kubeconfig: Path | None = _option(
        PATH, "", "The kubeconfig of that cluster. Without it, the one that kubectl would use ($KUBECONFIG)."
    )
    context: str = _option(TEXT, "", "The context in it. Without it, the current one.", absent="")
    ledgers: str = _option(
        one_of("memory", "kubernetes"),
        "memory",
        "Where caps are kept: in this process's memory, for one replica, or in the cluster as CapLedgers, for any "
        "number of them.",
    )
    namespace: str = _option(TEXT, "tallygate-system", "The gate's own namespace, where CapLedgers are kept.")
    in_flight_bound: float = _option(
        DURATION,
        "40s",
        "How long after it was asked about a pod the API server may still store it. Below 34s caps may be exceeded: "
        "that is for tests only.",
    )
    events: str = _option(
        one_of("on", "off"),
        "on",
        "Whether the owner of a pod that is refused, or let in with a warning, gets an Event that says so. Nothing "
        "happens without a cluster that is followed.",
    )
    decision_timeout: float = _option(
        DURATION, "10s", "The longest that one decision may take. The API server's own ?timeout= counts when shorter."
    )
    body_limit: int = _option(SIZE, "8Mi", "The largest request body. A larger one is answered with 413.")
    body_timeout: float = _option(
        DURATION,
        "10s",
        "How long one request may take to arrive. A connection on which one takes longer is closed.",
    )
    idle_timeout: float = _option(
        DURATION,
        "2m",
        "How long a connection may stand idle. The API server gives one up after 90 s; closing it earlier than that "
        "would fail a request that is just being sent.",
    )
    connections: int = _option(COUNT, "1024", "The most connections at a time; more wait to be accepted.")
    threads: int = _option(
        COUNT,
        "256",
        "The most requests answered at a time, slow ones included. Threads are started when they are needed, and a "
        "thread that waits costs little.",
    )
    audit_every: float | None = _option(
        DURATION,
        "",
        "How often to judge what is stored already, and to write policy reports where the cluster has them "
        "(docs/audit.md). One of several replicas does it. Without it, or with 0, nothing is audited. It needs a "
        "cluster.",
    )
    drain_delay: float = _option(
        DURATION,
        "3s",
        "After SIGTERM: how long to go on answering while not ready, so that the endpoint is taken out of the service.",
    )
    drain_timeout: float = _option(
        DURATION,
        "25s",
        "After that: how long to wait for requests that have begun. Then they are given up, and the exit code is 1. "
        "Let it be longer than body_timeout and decision_timeout together.",
    )
    log_level: str = _option(
        one_of("debug", "info", "warning", "error"), "info", "The least that is logged. Decisions are info."
    )


OPTIONS: tuple[Option, ...] = tuple(
    Option(item.name, item.metadata["kind"], item.metadata["default"], item.metadata["meaning"])
    for item in fields(Settings)
)
"""The table, in the order of `Settings`."""

CONFIG_VARIABLE = ENVIRONMENT_PREFIX + "CONFIG"
"""Names the settings file when no `--config` does."""
