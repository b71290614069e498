"""Where the API server is and who we are there: from a kubeconfig, as kubectl reads it, or from within a pod.

The official client reads the configuration, renews tokens and sets up TLS; its own behaviour in the environment is
kept but for one thing: a proxy named there is never used for a server on this machine, as in kubectl (Go's
http.ProxyFromEnvironment).
"""

import os
from ipaddress import ip_address
from pathlib import Path
from threading import Lock
from urllib.parse import urlsplit
from urllib.request import getproxies

import urllib3
import yaml
from kubernetes.client import Configuration
from kubernetes.client.rest import RESTClientObject
from kubernetes.config import ConfigException, load_incluster_config, load_kube_config

from webhook.errors import TallygateError
from webhook.state.watch.failure import Reason, WatchError


class ConnectError(TallygateError):
    """There is no configuration that says where the API server is."""


class Connection:
    """A configured way to one API server; `server` is its URL and `pool` its connections."""

    def __init__(self, configuration: Configuration) -> None:
        _spare_loopback(configuration)
        self._configuration = configuration
        self._renewing = Lock()
        self.server: str = configuration.host.rstrip("/")
        self.pool: urllib3.PoolManager = RESTClientObject(configuration).pool_manager

    def headers(self) -> dict[str, str]:
        """What says who asks; a token that is about to expire is renewed first.

        Raises:
            WatchError: it cannot be had.
        """
        try:
            with self._renewing:
                token = self._configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
        except (ConfigException, OSError, ValueError) as error:
            raise WatchError(Reason.UNAUTHORIZED, f"the token cannot be renewed: {error}") from None
        return {"Authorization": token} if token else {}


def connect(kubeconfig: Path | None = None, context: str | None = None) -> Connection:
    """The server of a kubeconfig's context: of this file, else of $KUBECONFIG, else of ~/.kube/config.

    Raises:
        ConnectError: there is none, or it cannot be read.
    """
    configuration = Configuration()
    files = str(kubeconfig or os.environ.get("KUBECONFIG") or Path.home() / ".kube" / "config")
    try:
        load_kube_config(files, context, client_configuration=configuration, persist_config=False)
    except (ConfigException, OSError, ValueError, TypeError, AttributeError, yaml.YAMLError) as error:
        wanted = f", context {context}," if context else ""
        raise ConnectError(
            f"kubeconfig {files}{wanted} does not say where the API server is: {' '.join(str(error).split())}; "
            "see `kubectl config get-contexts`, or name another by --kubeconfig and --context"
        ) from None
    return Connection(configuration)


def connect_in_cluster() -> Connection:
    """The server of the cluster whose pod this process runs in, as the pod's ServiceAccount.

    Raises:
        ConnectError: this is no pod, or it has no token.
    """
    configuration = Configuration()
    try:
        load_incluster_config(client_configuration=configuration)
    except (ConfigException, OSError) as error:
        raise ConnectError(
            f"this is not a pod with a ServiceAccount token: {error}; outside a cluster name a kubeconfig"
        ) from None
    return Connection(configuration)


def _spare_loopback(configuration: Configuration) -> None:
    """Use no proxy of the environment for this machine; one that the kubeconfig names itself is meant."""
    host = urlsplit(configuration.host).hostname or ""
    if _is_loopback(host) and configuration.proxy in getproxies().values():
        configuration.proxy = None


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
