"""Client configurations through the official client, which reads kubeconfigs, renews tokens and configures TLS.

The client reads its environment variables as usual, with one exception: a proxy from the environment is never used for
a server on this machine, as in kubectl (Go's http.ProxyFromEnvironment).
"""

import math
import os
import time
from ipaddress import ip_address
from pathlib import Path
from threading import Lock
from urllib.parse import urlsplit
from urllib.request import getproxies

import yaml
from kubernetes.client import Configuration
from kubernetes.client.rest import RESTClientObject
from kubernetes.config import ConfigException, load_incluster_config, load_kube_config

from webhook.kube.api_errors import ApiErrorReason, WatchError
from webhook.kube.config import ClientConfig, ClientConfigError

_TOKEN_CACHE_SECONDS = 1.0


def read_kubeconfig(kubeconfig: Path | None, context: str | None) -> ClientConfig:
    """Read a kubeconfig for `load_kubeconfig`.

    Raises:
        ClientConfigError: if the file or the context is missing or cannot be read.
    """
    configuration = Configuration()
    paths = str(kubeconfig or os.environ.get("KUBECONFIG") or Path.home() / ".kube" / "config")
    try:
        load_kube_config(paths, context, client_configuration=configuration, persist_config=False)
    except (ConfigException, OSError, ValueError, TypeError, AttributeError, yaml.YAMLError) as error:
        context_text = f", context {context}," if context else ""
        raise ClientConfigError(
            f"kubeconfig {paths}{context_text} does not say where the API server is: {' '.join(str(error).split())}; "
            "see `kubectl config get-contexts`, or name another by --kubeconfig and --context"
        ) from None
    return _create_client_config(configuration)


def read_in_cluster_config() -> ClientConfig:
    """Read the configuration of the pod for `load_in_cluster_config`.

    Raises:
        ClientConfigError: if the process does not run in a pod, or the pod has no token.
    """
    configuration = Configuration()
    try:
        load_incluster_config(client_configuration=configuration)
    except (ConfigException, OSError) as error:
        raise ClientConfigError(
            f"this is not a pod with a ServiceAccount token: {error}; outside a cluster name a kubeconfig"
        ) from None
    return _create_client_config(configuration)


def _create_client_config(configuration: Configuration) -> ClientConfig:
    _disable_loopback_proxy(configuration)
    pool = RESTClientObject(configuration).pool_manager
    return ClientConfig(configuration.host.rstrip("/"), pool, _Authorization(configuration))


class _Authorization:
    """The token of a configuration, requested by one thread at a time.

    A request to the client takes 0.1 ms, because the client configures itself again each time. The client renews a
    token minutes before it expires. So the token is cached for `_TOKEN_CACHE_SECONDS`.
    """

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self._renew_lock = Lock()
        self._cached_token = ("", -math.inf)

    def __call__(self) -> str:
        token, requested_at = self._cached_token
        now = time.monotonic()
        if now - requested_at > _TOKEN_CACHE_SECONDS:
            token = self._request_token()
            self._cached_token = token, now
        return token

    def _request_token(self) -> str:
        try:
            with self._renew_lock:
                return self._configuration.get_api_key_with_prefix("BearerToken", alias="authorization") or ""
        except (ConfigException, OSError, ValueError) as error:
            raise WatchError(ApiErrorReason.UNAUTHORIZED, f"the token cannot be renewed: {error}") from None


def _disable_loopback_proxy(configuration: Configuration) -> None:
    """Remove a proxy of the environment for a server on this machine; keep a proxy that the kubeconfig names."""
    host = urlsplit(configuration.host).hostname or ""
    if _is_loopback(host) and configuration.proxy in getproxies().values():
        configuration.proxy = None


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
