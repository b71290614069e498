"""Client configurations: from a kubeconfig, as kubectl reads it, or from the ServiceAccount of a pod.

The official client reads them (`config_loader`). Only a gate with a cluster imports it: the import takes a quarter of
the start time of a gate without a cluster.
"""

from collections.abc import Callable
from pathlib import Path

import urllib3

from webhook.errors import TallygateError


class ClientConfigError(TallygateError):
    """The failure to find a configuration with an API server."""


class ClientConfig:
    """The configuration for one API server: `server` is its URL, `pool` its connection pool."""

    def __init__(self, server: str, pool: urllib3.PoolManager, get_authorization: Callable[[], str]) -> None:
        """Store the configuration. `get_authorization` returns a valid `Authorization` header, or an empty string."""
        self.server = server
        self.pool = pool
        self._get_authorization = get_authorization

    def get_headers(self) -> dict[str, str]:
        """Return the headers that authenticate the gate, after the renewal of a token that is about to expire.

        Raises:
            WatchError: if the token cannot be renewed.
        """
        authorization = self._get_authorization()
        return {"Authorization": authorization} if authorization else {}


def load_kubeconfig(kubeconfig: Path | None = None, context: str | None = None) -> ClientConfig:
    """Load the context of a kubeconfig: `kubeconfig`, else $KUBECONFIG, else ~/.kube/config.

    Raises:
        ClientConfigError: if the file or the context is missing or cannot be read.
    """
    from webhook.kube.config_loader import read_kubeconfig  # noqa: PLC0415  see the module's docstring

    return read_kubeconfig(kubeconfig, context)


def load_in_cluster_config() -> ClientConfig:
    """Load the configuration of the cluster that this process runs in, with the ServiceAccount of its pod.

    Raises:
        ClientConfigError: if the process does not run in a pod, or the pod has no token.
    """
    from webhook.kube.config_loader import read_in_cluster_config  # noqa: PLC0415  see the module's docstring

    return read_in_cluster_config()
