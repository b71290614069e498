"""Load from wrk: requests per second and their latency."""

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.bench.servers import RunningServer

_SCRIPT = """
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
local file = io.open("{body}", "rb")
wrk.body = file:read("*all")
file:close()
done = function(summary, latency, requests)
  local errors = summary.errors
  io.write(string.format('{{"requests": %d, "microseconds": %d, "p50": %d, "p99": %d, "failed": %d}}\\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end
"""


@dataclass(frozen=True, slots=True)
class LoadResult:
    """One run: requests per second, latencies and processor time of the server in microseconds, failed requests."""

    per_second: float
    p50: int
    p99: int
    cpu: float
    failed: int


def find_wrk() -> str:
    """Return the path of wrk.

    Raises:
        SystemExit: if wrk is missing.
    """
    found = shutil.which("wrk")
    if not found:
        raise SystemExit("wrk is missing; on Debian and Ubuntu: apt-get install wrk")
    return found


def run_load(server: RunningServer, connections: int, seconds: int, body: Path, folder: Path) -> LoadResult:
    """Post the body to `/v1/admit/validate` over this number of keep-alive TLS connections."""
    script = folder / "post.lua"
    script.write_text(_SCRIPT.format(body=body))
    url = f"https://127.0.0.1:{server.port}/v1/admit/validate"
    before = server.cpu_seconds()
    command = [find_wrk(), "-t1", f"-c{connections}", f"-d{seconds}s", "-s", str(script), url]
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout  # noqa: S603  # wrk, our arguments
    cpu = server.cpu_seconds() - before
    report = json.loads(out.splitlines()[-1])
    return LoadResult(
        per_second=report["requests"] * 1e6 / report["microseconds"],
        p50=report["p50"],
        p99=report["p99"],
        cpu=cpu * 1e6 / max(report["requests"], 1),
        failed=report["failed"],
    )
