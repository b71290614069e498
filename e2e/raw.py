"""What the API server answers to a GET, whatever the status: kubectl itself shows a body only when that is 200."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, build_opener

from e2e.errors import ClusterError
from e2e.ports import Cluster

_ANSWER = 60.0  # seconds
_CLIENT = build_opener(ProxyHandler({}))  # without a proxy, whatever the environment says: loopback is meant


def answered(cluster: Cluster, path: str) -> str:
    """The body of the answer to a GET of an API path, whatever its status.

    Raises:
        ClusterError: there is no answer.
    """
    with _proxy(cluster) as base:
        try:
            with _CLIENT.open(f"{base}{path}", timeout=_ANSWER) as answer:
                return str(answer.read(), "utf-8")
        except HTTPError as error:
            with error:
                return str(error.read(), "utf-8")
        except (URLError, TimeoutError) as error:
            raise ClusterError(f"{path}: {error}") from None


@contextmanager
def _proxy(cluster: Cluster) -> Iterator[str]:
    """`kubectl proxy` on a free port of loopback; its URL."""
    with subprocess.Popen(  # noqa: S603  the site's kubectl, and no shell
        [str(cluster.kubectl_program), "proxy", "--port=0"],
        env={**os.environ, **cluster.environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as proxy:
        try:
            # "Starting to serve on 127.0.0.1:40421" (kubectl/pkg/cmd/proxy/proxy.go, v1.36)
            said = "" if proxy.stdout is None else proxy.stdout.readline()
            if not said.startswith("Starting to serve on "):
                raise ClusterError(f"kubectl proxy: {said.strip()}")
            yield f"http://{said.rsplit(' ', 1)[-1].strip()}"
        finally:
            proxy.terminate()
