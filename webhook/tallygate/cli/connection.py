"""The connection to a cluster that the options of a command name."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallygate.kube.impersonation import NO_IMPERSONATION, Impersonation, parse_user_extra
from tallygate.kube.kubeconfig import find_default_namespace

if TYPE_CHECKING:
    from tallygate.kube.client import ClientConfig

OPTION_FLAGS = {
    "kubeconfig": "--kubeconfig",
    "context": "--context",
    "in_cluster": "--in-cluster",
    "as_user": "--as",
    "as_group": "--as-group",
    "as_uid": "--as-uid",
    "as_user_extra": "--as-user-extra",
}
"""The options of a connection: the names by which click passes them to a command, and their flags."""


@dataclass(frozen=True, slots=True)
class Connection:
    """A context of a kubeconfig, or the cluster that this runs in, and as whom requests are sent there."""

    kubeconfig: Path | None = None
    context: str | None = None
    in_cluster: bool = False
    impersonation: Impersonation = NO_IMPERSONATION

    @property
    def is_default(self) -> bool:
        return self == DEFAULT_CONNECTION

    def list_options(self) -> tuple[str, ...]:
        """Return the options by which another command, of kubectl too, addresses the same cluster as the same user."""
        identity = self.impersonation
        values: dict[str, Iterable[object]] = {
            "--kubeconfig": [self.kubeconfig] if self.kubeconfig else [],
            "--context": [self.context] if self.context else [],
            "--as": [identity.user] if identity.user else [],
            "--as-uid": [identity.uid] if identity.uid else [],
            "--as-group": identity.groups,
            "--as-user-extra": [f"{key}={text}" for key, texts in identity.extra.items() for text in texts],
        }
        return tuple(f"{flag}={value}" for flag, given in values.items() for value in given)

    def load(self) -> "ClientConfig":
        """Return the configuration of the client.

        Raises:
            ClientConfigError: if the API server is not configured.
        """
        from tallygate.kube.config import load_client_config  # noqa: PLC0415  its import is slow

        return load_client_config(
            self.kubeconfig, self.context, in_cluster=self.in_cluster, impersonation=self.impersonation
        )

    def choose_namespace(self, namespace: str | None) -> str:
        """Return the given namespace, or the default that kubectl would use.

        Raises:
            KubeconfigError: if the kubeconfig cannot be read.
        """
        return namespace or find_default_namespace(self.kubeconfig, self.context, in_cluster=self.in_cluster)


DEFAULT_CONNECTION = Connection()


def create_connection(options: Mapping[str, Any]) -> Connection:
    """Return the connection that the values of `OPTION_FLAGS` name; a missing value is one that was not given.

    Raises:
        ImpersonationError: if an extra field has another form than KEY=VALUE.
    """
    kubeconfig = options.get("kubeconfig")
    impersonation = Impersonation(
        options.get("as_user") or "",
        options.get("as_uid") or "",
        tuple(options.get("as_group") or ()),
        parse_user_extra(options.get("as_user_extra") or ()),
    )
    return Connection(
        Path(kubeconfig) if kubeconfig else None, options.get("context"), bool(options.get("in_cluster")), impersonation
    )
