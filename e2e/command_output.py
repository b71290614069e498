"""The output of commands on a cluster: of kubectl and tallygate, and the raw answer of the API server to a GET."""

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from subprocess import CompletedProcess
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, build_opener

from e2e.errors import ClusterError
from e2e.ports import Cluster
from tests.warm import run

_ROOT = Path(__file__).parents[1]
_WITHIN = 240.0  # seconds for a command; a busy machine is slow
_ANSWER = 60.0  # seconds
_CLIENT = build_opener(ProxyHandler({}))  # without a proxy, whatever the environment says: loopback is meant


def run_kubectl(cluster: Cluster, *args: str, stdin: str | None = None) -> str:
    """Run kubectl where it must not fail, and return what it prints.

    Raises:
        ClusterError: if it fails; the text is kubectl's.
    """
    done = cluster.kubectl(*args, stdin=stdin)
    if done.returncode:
        raise ClusterError(f"kubectl {args[0]}: {done.stderr.strip()}")
    return done.stdout


def run_tallygate(
    cluster: Cluster, *arguments: str, stdin: str = "", cwd: Path = _ROOT, environment: Mapping[str, str] | None = None
) -> CompletedProcess[str]:
    """Run a command of tallygate on a cluster; the caller evaluates its output and its exit code.

    Its environment is that of kubectl and `environment`. Each command is a process of its own; that it starts from
    nothing is proven where the site's gate and terminals run.

    Raises:
        TimeoutError: if it does not end.
    """
    whole = {**os.environ, **cluster.environment, **(environment or {})}
    return run("tallygate.cli", arguments, stdin=stdin, cwd=cwd, environment=whole, timeout=_WITHIN)


def get_raw(cluster: Cluster, path: str) -> str:
    """Return the body of the answer to a GET of an API path, whatever its status: kubectl shows it only with a 200.

    Raises:
        ClusterError: if there is no answer.
    """
    with _run_proxy(cluster) as base:
        try:
            with _CLIENT.open(f"{base}{path}", timeout=_ANSWER) as answer:
                return str(answer.read(), "utf-8")
        except HTTPError as error:
            with error:
                return str(error.read(), "utf-8")
        except (URLError, TimeoutError) as error:
            raise ClusterError(f"{path}: {error}") from None


@contextmanager
def _run_proxy(cluster: Cluster) -> Iterator[str]:
    """Run `kubectl proxy` on a free port of loopback, and yield its URL."""
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
            line = "" if proxy.stdout is None else proxy.stdout.readline()
            if not line.startswith("Starting to serve on "):
                raise ClusterError(f"kubectl proxy: {line.strip()}")
            yield f"http://{line.rsplit(' ', 1)[-1].strip()}"
        finally:
            proxy.terminate()
