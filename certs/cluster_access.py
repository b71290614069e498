"""Access to the API server of a cluster, configured as for kubectl."""

import ipaddress
import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from kubernetes.client import Configuration
from kubernetes.config import load_incluster_config, load_kube_config

from certs.api import ApiClient
from certs.errors import CertsError, format_one_line


@dataclass(frozen=True, slots=True)
class KubeconfigSource:
    """The source of the cluster: a kubeconfig (None: kubectl's default) and context, or the cluster of this pod."""

    kubeconfig: Path | None = None
    context: str | None = None
    in_cluster: bool = False

    def __str__(self) -> str:
        """Return the source as a user would look for it."""
        if self.in_cluster:
            return "--in-cluster"
        file = str(self.kubeconfig) if self.kubeconfig else "the kubeconfig ($KUBECONFIG, else ~/.kube/config)"
        return f"{file}, context {self.context}" if self.context else file


def create_client(source: KubeconfigSource) -> ApiClient:
    """Return a client of the cluster's API server; it sends nothing yet, and never writes the kubeconfig.

    Raises:
        CertsError: if there is no such cluster, or its configuration cannot be read.
    """
    try:
        return ApiClient(_load_configuration(source))
    except Exception as error:  # noqa: BLE001  # a broken file makes the client raise any error
        raise CertsError(
            f"{source}: leads to no cluster: {format_one_line(str(error) or type(error).__name__)}"
        ) from None


def _load_configuration(source: KubeconfigSource) -> Configuration:
    configuration = Configuration()
    if source.in_cluster:
        load_incluster_config(configuration)
    else:
        files = str(source.kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config")
        load_kube_config(files, source.context, configuration, persist_config=False)
    server = urlsplit(configuration.host)
    if server.scheme not in {"https", "http"} or not server.hostname:
        raise ValueError(f"its server is {configuration.host!r}; write https://HOST:PORT")
    configuration.retries = False  # the user at the terminal may try again
    if _is_loopback(server.hostname) and configuration.proxy == Configuration(host=configuration.host).proxy:
        configuration.proxy = None  # a proxy of the environment is not for this machine itself, as for kubectl
    return configuration


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
