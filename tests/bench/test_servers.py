"""The memory of a server: a page that several of its processes share counts once."""

import subprocess
import sys

from tests.bench.servers import RunningServer

_MIB = 64
_FORKED = f"""
import os, sys
pages = bytearray(os.urandom(1 << 20) * {_MIB})
ready, notify = os.pipe()
if os.fork() == 0:
    os.write(notify, b"!")
    os.read(0, 1)
    os._exit(0)
os.read(ready, 1)
print("ready", flush=True)
sys.stdin.read()
"""


def test_a_page_that_a_worker_shares_with_its_parent_counts_once() -> None:
    command = [sys.executable, "-c", _FORKED]  # both processes end when their input does
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:  # noqa: S603  # our own
        assert process.stdin
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
        mib = RunningServer(process.pid, 0, 0.0).pss_mib()
        process.stdin.close()
    assert _MIB < mib < 1.5 * _MIB
