"""What tallygate says where somebody types it: at a cluster, in an environment as kubectl has it there.

Each is a process of its own; that it starts from nothing is proven where the site's gate and terminals run.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from subprocess import CompletedProcess

from e2e.ports import Cluster
from tests.warm import run

_ROOT = Path(__file__).parents[1]
_WITHIN = 240.0  # seconds for a command; a busy machine is slow


def tallygate(
    cluster: Cluster, *arguments: str, stdin: str = "", cwd: Path = _ROOT, environment: Mapping[str, str] | None = None
) -> CompletedProcess[str]:
    """Run a command of tallygate; what it says and its exit code are the caller's to judge.

    `environment` is what it finds beside what kubectl finds.

    Raises:
        TimeoutError: it does not end.
    """
    found = {**os.environ, **cluster.environment, **(environment or {})}
    return run("webhook.cli", arguments, stdin=stdin, cwd=cwd, environment=found, within=_WITHIN)
