"""Where the API server is and who we are there: from a kubeconfig, as kubectl reads it, or from within a pod.

The official client reads it (`configured`). It is imported when there is a cluster to talk to and not before: that is a
quarter of the time that a gate without one takes to start.
"""

from collections.abc import Callable
from pathlib import Path

import urllib3

from webhook.errors import TallygateError


class ClientConfigError(TallygateError):
    """There is no configuration that says where the API server is."""


class ClientConfig:
    """A configured way to one API server; `server` is its URL and `pool` its connections."""

    def __init__(self, server: str, pool: urllib3.PoolManager, get_authorization: Callable[[], str]) -> None:
        """`authorization` is what says who asks, if anything, renewed when it is about to expire."""
        self.server = server
        self.pool = pool
        self._get_authorization = get_authorization

    def get_headers(self) -> dict[str, str]:
        """What says who asks; a token that is about to expire is renewed first.

        Raises:
            WatchError: it cannot be had.
        """
        authorization = self._get_authorization()
        return {"Authorization": authorization} if authorization else {}


def load_kubeconfig(kubeconfig: Path | None = None, context: str | None = None) -> ClientConfig:
    """The server of a kubeconfig's context: of this file, else of $KUBECONFIG, else of ~/.kube/config.

    Raises:
        ConnectError: there is none, or it cannot be read.
    """
    from webhook.kube.config_loader import read_kubeconfig  # noqa: PLC0415  see the module's docstring

    return read_kubeconfig(kubeconfig, context)


def load_in_cluster_config() -> ClientConfig:
    """The server of the cluster whose pod this process runs in, as the pod's ServiceAccount.

    Raises:
        ConnectError: this is no pod, or it has no token.
    """
    from webhook.kube.config_loader import read_in_cluster_config  # noqa: PLC0415  see the module's docstring

    return read_in_cluster_config()
