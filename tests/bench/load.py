"""Load from wrk: how many requests a second, and how long one takes."""

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.bench.servers import Running

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
class Measured:
    """One run: requests a second, latencies and processor time of the server in microseconds, failed requests."""

    per_second: float
    p50: int
    p99: int
    cpu: float
    failed: int


def wrk() -> str:
    """Where wrk is.

    Raises:
        SystemExit: it is not there.
    """
    found = shutil.which("wrk")
    if not found:
        raise SystemExit("wrk is missing; on Debian and Ubuntu: apt-get install wrk")
    return found


def run(server: Running, connections: int, seconds: int, body: Path, folder: Path) -> Measured:
    """Post the body to `/v1/admit/validate` over so many keep-alive TLS connections."""
    script = folder / "post.lua"
    script.write_text(_SCRIPT.format(body=body))
    url = f"https://127.0.0.1:{server.port}/v1/admit/validate"
    before = server.cpu_seconds()
    command = [wrk(), "-t1", f"-c{connections}", f"-d{seconds}s", "-s", str(script), url]
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout  # noqa: S603  # wrk, our arguments
    cpu = server.cpu_seconds() - before
    said = json.loads(out.splitlines()[-1])
    return Measured(
        per_second=said["requests"] * 1e6 / said["microseconds"],
        p50=said["p50"],
        p99=said["p99"],
        cpu=cpu * 1e6 / max(said["requests"], 1),
        failed=said["failed"],
    )
