"""The client of an existing cluster: a kubeconfig, and a kubectl that fits its version."""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from e2e.errors import UnfitError
from e2e.local.build import programs
from e2e.ports import NotHereError

_WITHIN = 360.0  # seconds for a command; some wait for minutes
_SKEW = 1  # minor versions that kubectl may be ahead or behind (kubernetes.io, "Version Skew Policy")


class ConnectedCluster:
    """A cluster behind a kubeconfig, which is whole in itself and whose current context is meant.

    What is written goes into `folder`, which is the caller's to remove.
    """

    def __init__(self, kubeconfig: Path, folder: Path) -> None:
        """Find a kubectl that fits.

        Raises:
            UnfitError: if the cluster does not answer.
            BuildError: if no kubectl here fits, and none can be built.
        """
        self.kubeconfig = kubeconfig
        self.environment: Mapping[str, str] = {"KUBECONFIG": str(kubeconfig), "KUBECACHEDIR": str(folder / "cache")}
        self.kubectl_program = find_kubectl()
        if not self._fits():
            self.kubectl_program = build_kubectl()

    def kubectl(self, *args: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run kubectl; the caller evaluates its output and its exit code."""
        return subprocess.run(  # noqa: S603  kubectl, and no shell
            [str(self.kubectl_program), *args],
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            check=False,
            timeout=_WITHIN,
            env={**os.environ, **self.environment},
        )

    def restart_api_server(self) -> None:
        """Restart nothing: the API server belongs to another owner.

        Raises:
            NotHereError: always.
        """
        raise NotHereError("the API server of a cluster that is there already is not the suite's to restart")

    def _fits(self) -> bool:
        done = self.kubectl("version", "--output=json", "--request-timeout=30s")
        if done.returncode:
            raise UnfitError(f"the cluster does not answer `kubectl version`: {done.stderr.strip()}")
        versions = json.loads(done.stdout)
        client, server = (_minor(versions[side]["minor"]) for side in ("clientVersion", "serverVersion"))
        return abs(client - server) <= _SKEW


def find_kubectl() -> Path:
    """Return the kubectl on PATH, or else the one that is built with the local control plane.

    Raises:
        BuildError: if there is no kubectl, and it cannot be built.
    """
    found = shutil.which("kubectl")
    return build_kubectl() if found is None else Path(found)


def build_kubectl() -> Path:
    """Return the kubectl that is built with the local control plane.

    Raises:
        BuildError: if it cannot be built here.
    """
    return programs().kubectl


def _minor(text: str) -> int:
    """Parse a minor version; some clouds write `36+`."""
    return int(text.rstrip("+"))
