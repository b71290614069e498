"""What is measured beside the gates, as processes: the trivial webhook, and the least that a webhook can be.

The trivial one is the view and the server that `make bench` measures (`tests/bench/bare.py`); the least is a constant
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
from e2e.progress import ended
from e2e.waiting import until

_ROOT = Path(__file__).parents[2]
_FLOOR = Path(__file__).parent / "floor"
_PORT = re.compile(r'^\{"port": (\d+)\}$', re.MULTILINE)
_WITHIN = 30.0  # seconds
_NOWHERE = ""  # they have no health answer


def flask_port(name: str, folder: Path, ends: ExitStack) -> int:
    """Run a trivial webhook until `ends`, with the certificate in the folder; the port that it chose.

    Raises:
        ClusterError: it ends by itself, or names no port in time.
    """
    return _port(name, (sys.executable, "-m", "tests.bench.bare", str(folder)), folder, ends)


def floor_port(folder: Path, kubeconfig: Path, ledger: Path, ends: ExitStack) -> int:
    """Build the constant answer in the folder and run it until `ends`, with the certificate there; its port.

    With the kubeconfig it writes the ledger, which is stored as the file has it.

    Raises:
        ClusterError: it cannot be built, ends by itself, or names no port in time.
    """
    program = folder / "floor"
    go = shutil.which("go") or "go"  # the control plane was built with it
    build = (go, "build", "-buildvcs=false", "-o", str(program), ".")
    done = ended(build, "building the constant answer", folder=_FLOOR, environment={**os.environ, "GOWORK": "off"})
    if done.returncode:
        raise BuildError(f"{_FLOOR} cannot be built; `go build` says:\n{done.stderr.strip()}")
    return _port("floor", (str(program), str(folder), str(kubeconfig), str(ledger)), folder, ends)


def _port(name: str, command: tuple[str, ...], folder: Path, ends: ExitStack) -> int:
    component = Component(Launch(name, command, _NOWHERE), folder, {"PYTHONPATH": str(_ROOT)})
    ends.callback(component.stop)

    def says_its_port() -> bool:
        component.check()
        return _PORT.search(component.log.read_text()) is not None

    until(f"the webhook {name} names its port", says_its_port, _WITHIN, component.log_end)
    return int(_PORT.findall(component.log.read_text())[0])
