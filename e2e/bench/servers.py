"""The processes that are compared with the gates: the trivial webhook, and the smallest possible one.

The trivial one is the view and server of `make bench` (`tests/bench/bare.py`); the smallest is a constant
answer in Go (`e2e/bench/floor`), built here by Go's own cache in a second or two.
"""

import os
import re
import shutil
import sys
from contextlib import ExitStack
from pathlib import Path

from e2e.errors import BuildError
from e2e.local.component import Component, Launch
from e2e.progress import run_command
from e2e.waiting import until

_ROOT = Path(__file__).parents[2]
_FLOOR = Path(__file__).parent / "floor"
_PORT = re.compile(r'^\{"port": (\d+)\}$', re.MULTILINE)
_WITHIN = 120.0  # seconds
_NO_HEALTH_PATH = ""  # they have no health endpoint


def flask_port(name: str, folder: Path, stack: ExitStack) -> int:
    """Run a trivial webhook until the end of `stack`, with the certificate in the folder; return its port.

    Raises:
        ClusterError: if it ends by itself, or logs no port in time.
    """
    return _port(name, (sys.executable, "-m", "tests.bench.bare", str(folder)), folder, stack)


def floor_port(folder: Path, kubeconfig: Path, ledger: Path, stack: ExitStack) -> int:
    """Build the constant server in the folder and run it until the end of `stack`; return its port.

    It writes the ledger of the file with the kubeconfig.

    Raises:
        ClusterError: if it cannot be built, ends by itself, or logs no port in time.
    """
    program = folder / "floor"
    go = shutil.which("go") or "go"  # the control plane was built with it
    build = (go, "build", "-buildvcs=false", "-o", str(program), ".")
    done = run_command(
        build, "building the constant answer", folder=_FLOOR, environment={**os.environ, "GOWORK": "off"}
    )
    if done.returncode:
        raise BuildError(f"{_FLOOR} cannot be built; `go build` says:\n{done.stderr.strip()}")
    return _port("floor", (str(program), str(folder), str(kubeconfig), str(ledger)), folder, stack)


def _port(name: str, command: tuple[str, ...], folder: Path, stack: ExitStack) -> int:
    component = Component(Launch(name, command, _NO_HEALTH_PATH), folder, {"PYTHONPATH": str(_ROOT)})
    stack.callback(component.stop)

    def has_logged_port() -> bool:
        component.check()
        return _PORT.search(component.log.read_text()) is not None

    until(f"the webhook {name} names its port", has_logged_port, _WITHIN, component.log_end)
    return int(_PORT.findall(component.log.read_text())[0])
