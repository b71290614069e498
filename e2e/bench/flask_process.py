"""The trivial webhook as a process: the view and the server that `make bench` measures (`tests/bench/bare.py`)."""

import re
import sys
from contextlib import ExitStack
from pathlib import Path

from e2e.local.component import Component, Launch
from e2e.waiting import until

_ROOT = Path(__file__).parents[2]
_PORT = re.compile(r'^\{"port": (\d+)\}$', re.MULTILINE)
_WITHIN = 30.0  # seconds
_NOWHERE = ""  # it has no health answer


def flask_port(folder: Path, ends: ExitStack) -> int:
    """Run it until `ends`, with the certificate in the folder; the port that it chose.

    Raises:
        ClusterError: it ends by itself, or names no port in time.
    """
    command = (sys.executable, "-m", "tests.bench.bare", str(folder))
    component = Component(Launch("flask", command, _NOWHERE), folder, {"PYTHONPATH": str(_ROOT)})
    ends.callback(component.stop)

    def says_its_port() -> bool:
        component.check()
        return _PORT.search(component.log.read_text()) is not None

    until("the trivial webhook names its port", says_its_port, _WITHIN, component.log_end)
    return int(_PORT.findall(component.log.read_text())[0])
