"""Client configurations: from a kubeconfig, as kubectl reads it, or from the ServiceAccount of a pod.

The official client reads kubeconfigs, renews tokens and configures TLS. Its import takes a quarter of the start time of
a gate without a cluster: only a process that uses a cluster imports this module.

The client reads its environment variables as usual, with one exception: a proxy from the environment is never used for
a server on this machine, as in kubectl (Go's http.ProxyFromEnvironment).

The client passes over `as` and its like in a kubeconfig, by which requests would have more rights than those of
kubectl: `kubeconfig` reads them.
"""

import math
import os
import time
from difflib import get_close_matches
from ipaddress import ip_address
from pathlib import Path
from threading import Lock
from urllib.parse import urlsplit
from urllib.request import getproxies

from kubernetes.client import Configuration
from kubernetes.client.rest import RESTClientObject
from kubernetes.config import ConfigException, list_kube_config_contexts, load_incluster_config, load_kube_config

from tallygate.errors import TallygateError
from tallygate.kube.api_errors import ApiError, ApiErrorReason
from tallygate.kube.client import ClientConfig
from tallygate.kube.impersonation import NO_IMPERSONATION, Impersonation, ImpersonationError
from tallygate.kube.kubeconfig import KubeconfigError, find_impersonation

_TOKEN_CACHE_SECONDS = 1.0


class ClientConfigError(TallygateError):
    """The failure to find a configuration with an API server."""


def load_client_config(
    kubeconfig: Path | None, context: str | None, *, in_cluster: bool, impersonation: Impersonation = NO_IMPERSONATION
) -> ClientConfig:
    """Load the configuration that the options of a command name.

    Raises:
        ClientConfigError: if there is no such configuration, or it cannot be read.
    """
    if in_cluster:
        return load_in_cluster_config(impersonation)
    return load_kubeconfig(kubeconfig, context, impersonation)


def load_kubeconfig(
    kubeconfig: Path | None = None, context: str | None = None, impersonation: Impersonation = NO_IMPERSONATION
) -> ClientConfig:
    """Load the context of a kubeconfig: `kubeconfig`, else $KUBECONFIG, else ~/.kube/config.

    The fields of `impersonation` replace those of the kubeconfig.

    Raises:
        ClientConfigError: if the file or the context is missing or cannot be read.
    """
    configuration = Configuration()
    paths = str(kubeconfig or os.environ.get("KUBECONFIG") or Path.home() / ".kube" / "config")
    _check_files(paths)
    _check_context(paths, context)
    try:
        load_kube_config(paths, context, client_configuration=configuration, persist_config=False)
        server = urlsplit(configuration.host)
        if server.scheme not in {"https", "http"} or not server.hostname:
            raise ValueError(f"its server is {configuration.host!r}; write https://HOST:PORT")  # noqa: TRY301  # one message
        impersonation = find_impersonation(kubeconfig, context).override(impersonation)
        return _create_client_config(configuration, impersonation)
    except (ImpersonationError, KubeconfigError) as error:
        raise ClientConfigError(f"kubeconfig {paths}: {error}") from None
    except Exception as error:  # noqa: BLE001  # a broken file makes the client raise any error
        context_text = f", context {context}," if context else ""
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ClientConfigError(
            f"kubeconfig {paths}{context_text} does not say where the API server is: {reason}; "
            "see `kubectl config get-contexts`, or name another by --kubeconfig and --context"
        ) from None


def _check_files(paths: str) -> None:
    """Check that one of the files exists.

    Raises:
        ClientConfigError: if none does.
    """
    if not any(Path(path).exists() for path in paths.split(os.pathsep) if path):
        raise ClientConfigError(
            f"there is no kubeconfig: {paths} does not exist; name one by --kubeconfig or $KUBECONFIG"
        )


def _check_context(paths: str, context: str | None) -> None:
    """Check that the files have a context; files that cannot be read are another error.

    Raises:
        ClientConfigError: if they do not have it.
    """
    if context is None:
        return
    try:
        contexts, _ = list_kube_config_contexts(paths)
    except Exception:  # noqa: BLE001  a broken file makes the client raise any error
        return
    names = [each["name"] for each in contexts]
    if context not in names:
        nearest = get_close_matches(context, names, 1)
        hint = f"did you mean {nearest[0]}?" if nearest else f"it has {', '.join(names) or 'no context'}"
        raise ClientConfigError(f"kubeconfig {paths} has no context {context}; {hint}")


def load_in_cluster_config(impersonation: Impersonation = NO_IMPERSONATION) -> ClientConfig:
    """Load the configuration of the cluster that this process runs in, with the ServiceAccount of its pod.

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
    try:
        return _create_client_config(configuration, impersonation)
    except ImpersonationError as error:
        raise ClientConfigError(f"{error}") from None


def _create_client_config(configuration: Configuration, impersonation: Impersonation) -> ClientConfig:
    _disable_loopback_proxy(configuration)
    headers = impersonation.list_headers()
    pool = RESTClientObject(configuration).pool_manager
    return ClientConfig(configuration.host.rstrip("/"), pool, _Authorization(configuration), headers)


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
                token = self._configuration.get_api_key_with_prefix("BearerToken", alias="authorization") or ""
        except Exception as error:  # noqa: BLE001  # any error of the renewal: a file, a program, a server
            raise _create_token_error(f"the token cannot be renewed: {' '.join(str(error).split())}") from None
        token = token.strip()
        if not (token.isascii() and token.isprintable()):  # http.client's error would show the token
            raise _create_token_error("the token has characters that no header may have")
        return token


def _create_token_error(message: str) -> ApiError:
    return ApiError(ApiErrorReason.UNAUTHORIZED, message, may_be_applied=False)


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
