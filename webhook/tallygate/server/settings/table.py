"""The table of all settings of the server. Flags, variables, file keys and documentation are derived from it."""
# ruff: noqa: RUF009 - a field's default is made by `_create_field`, once, and is immutable

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from tallygate.server.settings import value_types

ENVIRONMENT_PREFIX = "TALLYGATE_"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Option:
    """One setting: its name, type, default as text ("": no default) and description."""

    name: str
    value_type: value_types.ValueType[Any]
    default: str
    description: str

    @property
    def flag(self) -> str:
        """The flag, such as `--listen`."""
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        """The environment variable, such as `TALLYGATE_LISTEN`."""
        return ENVIRONMENT_PREFIX + self.name.upper()


def _create_field(value_type: value_types.ValueType[T], default: str, description: str, unset_value: Any = None) -> Any:
    """Return a field of `Settings` with the data of its `Option`; its default is `unset_value` if `default` is ""."""
    value = value_type.parse(default) if default else unset_value
    return field(default=value, metadata={"value_type": value_type, "default": default, "description": description})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of a server. Durations are in seconds, sizes in bytes."""

    policies: tuple[Path, ...] = _create_field(
        value_types.PATHS,
        "",
        "Policy files, and folders at any depth, reloaded when they change. Without any, the shipped policies are "
        "active.",
        unset_value=(),
    )
    listen: value_types.Address = _create_field(
        value_types.ADDRESS, "0.0.0.0:8443", "The address for reviews, or for the asks of `serve-ask`, over HTTPS."
    )
    monitor: value_types.Address = _create_field(
        value_types.ADDRESS,
        "0.0.0.0:9090",
        "The address for metrics and health, over plain HTTP. Keep it inside the cluster.",
    )
    tls_cert: Path | None = _create_field(
        value_types.PATH, "", "The serving certificate and its chain, PEM. The server reloads it when the file changes."
    )
    tls_key: Path | None = _create_field(value_types.PATH, "", "The private key of the serving certificate, PEM.")
    tls_secret: str = _create_field(
        value_types.SECRET,
        "",
        "Instead of both: a Secret, as NAMESPACE/NAME. The gate creates a missing Secret, serves its certificate, "
        "renews it in time, and publishes its CAs in caBundle, in the cluster that it watches, or else runs in. Any "
        "number of replicas may do so (docs/operate/certificates.md).",
        unset_value="",
    )
    tls_dir: Path | None = _create_field(
        value_types.FOLDER,
        "",
        "The directory for the certificate and key of tls_secret: a volume in memory that outlives the container, so "
        "that the server can start while the API server is unavailable. Default: a directory that is deleted at exit.",
    )
    relay_dir: Path | None = _create_field(
        value_types.FOLDER,
        "",
        "The directory that the gate shares with a relay in its pod (docs/reference/installation.md): the gate writes "
        "its certificate and its CAs there, and sends the relay each new one.",
    )
    ca_propagation_delay: float = _create_field(
        value_types.DURATION,
        "1h",
        "How long a new CA of tls_secret is published before it signs a serving certificate: longer than any API "
        "server needs to receive it. Shorter times are only for tests.",
    )
    tls_min_version: str = _create_field(
        value_types.create_choice("1.2", "1.3"),
        "1.3",
        "The oldest accepted version of TLS. Some API servers of FIPS builds speak 1.2 at most.",
    )
    client_ca_file: Path | None = _create_field(
        value_types.PATH,
        "",
        "CA certificates, PEM. Only clients with a certificate of one of these CAs are served; with relay_dir the "
        "relay verifies it. Without client_names every certificate of such a CA is accepted, so use a CA that signs "
        "only for the API server.",
    )
    client_names: tuple[str, ...] = _create_field(
        value_types.NAMES,
        "",
        "Common names (CN) of client certificates; no other client is served. Needs client_ca_file, and a "
        "relay (relay_dir), which checks them: the HTTP library of the gate does not pass certificates on.",
        unset_value=(),
    )
    token_file: Path | None = _create_field(
        value_types.PATH,
        "",
        "Secret path segments, one per line. The gate then answers only under /v1/admit/TOKEN/. All lines are valid, "
        "so that a token can be changed without an interruption. Reloaded when the file changes.",
    )
    cluster: str = _create_field(
        value_types.create_choice("none", "in-cluster", "kubeconfig"),
        "none",
        "The cluster whose namespaces and pods are watched: none, that of the pod this runs in, or that of a "
        "kubeconfig. With a cluster, labels are known and stored pods are counted instead of their reservations; "
        "after a start nothing is reserved under a cap until in_flight_bound has passed.",
    )
    kubeconfig: Path | None = _create_field(
        value_types.PATH,
        "",
        "The kubeconfig of that cluster. Without it, the one that kubectl would use ($KUBECONFIG).",
    )
    context: str = _create_field(
        value_types.NAME, "", "The context in it. Without it, the current one.", unset_value=""
    )
    ledgers: str = _create_field(
        value_types.create_choice("memory", "kubernetes"),
        "memory",
        "Where ledgers are stored: in the memory of this process, for one replica, or in the cluster as CapLedgers, "
        "for any number of replicas.",
    )
    namespace: str = _create_field(
        value_types.NAME, "tallygate-system", "The gate's own namespace, where CapLedgers are stored."
    )
    in_flight_bound: float = _create_field(
        value_types.DURATION,
        "40s",
        "How long the API server may still store a pod after the gate has answered about it. With less than 34s caps "
        "may be exceeded: that is only for tests.",
    )
    events: str = _create_field(
        value_types.create_choice("on", "off"),
        "on",
        "Whether the gate writes an Event on the owner of a pod that is rejected, or admitted with a warning. It needs "
        "a cluster.",
    )
    body_limit: int = _create_field(
        value_types.SIZE, "8Mi", "The largest request body. A larger one is answered with 413."
    )
    connections: int = _create_field(
        value_types.COUNT,
        "1024",
        "The maximum number of connections. For each further one a connection is closed: the oldest that has sent "
        "nothing, or else one without an answer, or else an idle one.",
    )
    connections_per_address: int = _create_field(
        value_types.COUNT,
        "256",
        "The maximum number of connections from one address. An API server has at most one for each concurrent "
        "review, and 25 idle ones; connections with a review are never closed.",
    )
    threads: int = _create_field(
        value_types.COUNT,
        "256",
        "The maximum number of concurrent requests, including slow ones. Threads are started when they are needed, "
        "and a waiting thread costs little.",
    )
    audit_interval: float | None = _create_field(
        value_types.DURATION,
        "",
        "Time between two audits, which evaluate the stored objects, and write policy reports where the cluster has "
        "them (docs/operate/audit.md). Only one replica audits. Without it, or with 0, nothing is audited. "
        "It needs a cluster.",
    )
    publish_nodes: str = _create_field(
        value_types.create_choice("on", "off"),
        "off",
        "Whether the leading replica publishes the amounts of every NodeResource in the status of nodes "
        "(docs/tasks/publish-on-nodes.md). It needs a cluster, and the right to patch nodes/status.",
    )
    backstop: str = _create_field(
        value_types.create_choice("on", "off"),
        "off",
        "Whether the leading replica keeps the backstop in the cluster: the ValidatingAdmissionPolicies and "
        "ResourceQuotas that enforce a part of the policies while no gate answers "
        "(docs/operate/without-the-gate.md). It needs a cluster, and the rights of the component backstop.",
    )
    publish_usage: str = _create_field(
        value_types.create_choice("on", "off"),
        "off",
        "Whether the leading replica keeps a CapUsage for each cap in each namespace that it counts, where tenants read"
        " their limits and amounts (docs/tasks/see-your-caps.md). It needs a cluster, and the rights of the component "
        "publish-usage.",
    )
    notify_file: Path | None = _create_field(
        value_types.PATH,
        "",
        "The file of receivers that get messages, of Slack, Teams or any webhook: a soft limit is crossed, a cap is "
        "full, an override ends, the gate is degraded (docs/tasks/get-notified.md). It is read at the start. It needs "
        "a cluster.",
    )
    page: str = _create_field(
        value_types.create_choice("on", "off"),
        "off",
        "Whether `serve-ask` also serves the pages for browsers, under /page/ (docs/operate/page.md).",
    )
    page_key_file: Path | None = _create_field(
        value_types.PATH,
        "",
        "Keys for the cookies of the pages, one per line, each 32 bytes in base64: the first one encrypts, all of "
        "them decrypt. All replicas of `serve-ask` need the same keys. Without it each process creates a key, and "
        "users sign in again after a restart.",
    )
    page_url: str = _create_field(
        value_types.BASE_URL,
        "",
        "The address of the pages for browsers, such as https://gate.example.com: denials, and the Events about them, "
        "have a link to the page of their namespace (docs/operate/page.md).",
        unset_value="",
    )
    ask_url: str = _create_field(
        value_types.URL,
        "",
        "The address of `serve-ask` for its users, such as https://tallygate-ask.tallygate-system.svc:443. With it the "
        "leading replica writes the address and the CAs of its certificate into the ConfigMap tallygate-ask, and the "
        "certificate of tls_secret is also for that host and for the Service tallygate-ask (docs/operate/ask.md). It "
        "needs a cluster, and the rights of the component ask.",
        unset_value="",
    )
    feature_gates: frozenset[str] = _create_field(
        value_types.FEATURE_GATES,
        "",
        "For `serve-ask`, as for `predict`: the cluster has these feature gates on, which no API shows before a "
        "PodGroup has used them: GenericWorkload (PodGroups), DRAWorkloadResourceClaims (their claims), "
        "WorkloadWithJob (one for each Job).",
        unset_value=frozenset(),
    )
    user_ca_file: Path | None = _create_field(
        value_types.PATH,
        "",
        "The CAs of users' client certificates, PEM, by which `serve-ask` also identifies users. Default: those of "
        "the API server, if the ConfigMap extension-apiserver-authentication of kube-system may be read.",
    )
    proxy_ca_file: Path | None = _create_field(
        value_types.PATH,
        "",
        "The CAs of front proxies' client certificates, PEM, for `serve-ask`: such a proxy states its user in headers "
        "(docs/operate/ask.md). None of them may sign for users. Without it such headers are ignored.",
    )
    proxy_names: tuple[str, ...] = _create_field(
        value_types.NAMES,
        "",
        "Common names (CN) of the front proxies' certificates. Without them every certificate that proxy_ca_file has "
        "signed may state any user.",
        unset_value=(),
    )
    proxy_user_header: str = _create_field(
        value_types.HEADER, "X-Remote-User", "The header in which a front proxy states its user."
    )
    proxy_group_header: str = _create_field(
        value_types.HEADER,
        "X-Remote-Group",
        "The header in which it states a group of that user; one header for each group.",
    )
    proxy_group_lists: str = _create_field(
        value_types.create_choice("on", "off"),
        "off",
        "Whether one such header may have several groups, separated by commas, as from oauth2-proxy.",
    )
    proxy_extra_prefix: str = _create_field(
        value_types.HEADER,
        "X-Remote-Extra-",
        "The prefix of headers in which it states more about that user: the rest of the name is a key of `extra` in "
        "SubjectAccessReviews.",
    )
    new_caps: str = _create_field(
        value_types.create_choice("admit", "wait"),
        "admit",
        "What a cap that was never active does until it is counted: admit accepts requests with a warning; wait "
        "answers 429, so that the limit applies from the first request (docs/concepts/caps.md).",
    )
    drain_delay: float = _create_field(
        value_types.DURATION,
        "3s",
        "After SIGTERM: how long the gate continues to answer while it is not ready, so that its endpoint is removed "
        "from the Service.",
    )
    log_level: str = _create_field(
        value_types.create_choice("debug", "info", "warning", "error"),
        "info",
        "The lowest level that is logged. Requests that are allowed without a warning are debug, all other decisions "
        "info.",
    )


OPTIONS: tuple[Option, ...] = tuple(
    Option(item.name, item.metadata["value_type"], item.metadata["default"], item.metadata["description"])
    for item in fields(Settings)
)
"""All settings, in the order of `Settings`."""

REMOVED: Mapping[str, str] = MappingProxyType(
    {
        "namespaces_file": "name the cluster by --cluster, which knows the labels of its namespaces",
        "body_timeout": "it is 10s",
        "decision_timeout": "it is 10s, or the API server's own timeout when shorter",
        "drain_timeout": "it is 25s",
        "first_request_timeout": "it is 10s",
        "idle_timeout": "it is 2m",
    }
)
"""Settings of earlier versions, and what is true or to be done without each."""

CONFIG_VARIABLE = ENVIRONMENT_PREFIX + "CONFIG"
"""The variable that names the settings file if `--config` is not given."""
