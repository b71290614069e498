"""A terminal for a case: a folder with manifests, a kubeconfig whose namespace is the case's, kubectl and tallygate."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from e2e.ports import Site

_HERE = Path(__file__).parent
_IMAGE = "example.com/none:1"
_WITHIN = 360.0  # seconds for a command; some wait for minutes


class Terminal:
    """A terminal that runs the commands of a case, in a folder that has the suite's manifests.

    Raises:
        subprocess.CalledProcessError: if the kubeconfig cannot be made.
    """

    def __init__(self, site: Site, namespace: str, folder: Path, user: Path | None = None) -> None:
        """Make it; `user` is the kubeconfig of someone else than the administrator."""
        self.folder = folder
        self._programs = {
            "kubectl": (str(site.cluster.kubectl_program),),
            "tallygate": (sys.executable, "-m", "tallygate.cli"),
        }
        kubeconfig = folder / ".kubeconfig"
        shutil.copyfile(user or site.cluster.kubeconfig, kubeconfig)
        kubeconfig.chmod(0o600)
        self._environment = {
            **os.environ,
            **site.cluster.environment,
            "KUBECONFIG": str(kubeconfig),
            "PYTHONPATH": str(_HERE.parent),
            "COLUMNS": "160",
        }
        for file in (_HERE / "manifests").iterdir():
            (folder / file.name).write_text(file.read_text().replace(_IMAGE, site.image))
        self._run_program(
            "kubectl", "config", "set-context", "--current", f"--namespace={namespace}"
        ).check_returncode()

    def run(self, words: list[str]) -> str:
        """Run a command of `kubectl` or `tallygate`, and return what it printed, with `(exit N)` if it failed."""
        done = self._run_program(*words)
        end = f"(exit {done.returncode})\n" if done.returncode else ""
        return f"{done.stdout}{end}"

    def _run_program(self, program: str, *args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(  # noqa: S603  programs of ours, and no shell
            [*self._programs[program], *args],
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=_WITHIN,
        )
