"""The shell of an administrator who follows the pages: a folder with deploy/ in it, and kubectl, helm and tallygate."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from e2e.errors import ClusterError
from e2e.installation.rendered import CHART, KUSTOMIZE
from e2e.ports import Cluster

_ROOT: Final = Path(__file__).parents[2]
_WITHIN: Final = 600.0  # seconds for a command; a rollout on a busy machine takes minutes
_TALLYGATE: Final = '#!/bin/sh\nexec "{python}" -m tallygate.cli "$@"\n'


class AdminShell:
    """A shell whose commands go to a cluster, as its administrator; `folder` is its own."""

    def __init__(self, cluster: Cluster, folder: Path, helm: Callable[[], Path] | None = None) -> None:
        """Copy deploy/ as far as it is installed; `helm` gives that program, where it is typed.

        Raises:
            BuildError: if there is no Helm here, and it cannot be built.
        """
        self.folder = folder
        for tree in (KUSTOMIZE, CHART):
            shutil.copytree(tree, folder / tree.relative_to(_ROOT))
        programs = folder / "bin"
        programs.mkdir()
        (programs / "kubectl").symlink_to(cluster.kubectl_program)
        if helm is not None:
            (programs / "helm").symlink_to(helm())
        (programs / "tallygate").write_text(_TALLYGATE.format(python=sys.executable))
        (programs / "tallygate").chmod(0o755)
        path = f"{programs}{os.pathsep}{os.environ['PATH']}"
        found = {"KUBECONFIG": str(cluster.kubeconfig), "PYTHONPATH": str(_ROOT), "PATH": path}
        self._environment = {**os.environ, **cluster.environment, **found}

    def write(self, path: str, text: str) -> None:
        """Write a file with this content."""
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def run(self, command: str) -> str:
        """Run a command and return what it prints.

        Raises:
            ClusterError: if it fails; the text has what it says.
        """
        done = self.run_unchecked(command)
        if done.returncode:
            raise ClusterError(f"{command}: exit code {done.returncode}\n{done.stdout}{done.stderr}".strip())
        return done.stdout

    def run_unchecked(self, command: str) -> subprocess.CompletedProcess[str]:
        """Run a command and return its result, successful or not."""
        return subprocess.run(  # noqa: S603  the pages' own commands
            ["/bin/sh", "-c", command],
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_WITHIN,
        )
