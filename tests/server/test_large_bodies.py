"""Nine hundred large bodies at a time, without credentials: bounded memory, and no review fails meanwhile."""

import os
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from tests.server.process import ServerProcess
from tests.server.test_connection_guard import Client, send_review

MIB = 1 << 20
CONNECTIONS = 900
LIMIT = 512 * MIB
"""The limit of memory in the manifests."""

_MEMORY = Path("/sys/fs/cgroup/memory")


def begin_body(client: Client, number: int) -> ssl.SSLSocket:
    """Announce a body of 8 MiB from one of ten addresses, and send as much of it as is taken at once."""
    head = b"POST /v1/admit/mutate?timeout=30s HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % (8 * MIB)
    connection = client.connect(head, f"127.0.0.{2 + number % 10}")
    send_more(connection, 64)
    return connection


def send_more(connection: ssl.SSLSocket, pieces: int) -> None:
    """Send spaces while they are taken at once."""
    connection.settimeout(0)
    with suppress(OSError):
        for _ in range(pieces):
            connection.send(b" " * 16_384)


def test_nine_hundred_bodies_take_bounded_memory_and_fail_no_review(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server, limit_memory(server.process.pid) as read_peak:
        client = Client(server)
        before = server.status("VmRSS") * 1024
        bodies = []
        for number in range(CONNECTIONS):
            bodies.append(begin_body(client, number))
            if number % 50 == 0:
                assert send_review(client.connect()) == 200
        for _ in range(4):
            for body in bodies:
                send_more(body, 64)
            assert send_review(client.connect()) == 200
        assert server.status("VmHWM") * 1024 - before < 160 * MIB
        assert read_peak() < LIMIT
        assert server.get_metric("tallygate_admission_failures_total") > 0
        client.close()


@contextmanager
def limit_memory(pid: int) -> Iterator[Callable[[], int]]:
    """Limit the memory of a process by a cgroup; yield a function that returns its peak, 0 without cgroups."""
    group = _MEMORY / f"tallygate-{os.getpid()}"
    with ExitStack() as stack:
        with suppress(OSError):
            group.mkdir()
            stack.callback(remove, group, pid)
            (group / "memory.limit_in_bytes").write_text(str(LIMIT))
            (group / "cgroup.procs").write_text(str(pid))
        yield lambda: read_number(group / "memory.max_usage_in_bytes")


def remove(group: Path, pid: int) -> None:
    """Move the process to the root of the cgroups, and remove its cgroup."""
    with suppress(OSError):
        (_MEMORY / "cgroup.procs").write_text(str(pid))
        group.rmdir()


def read_number(path: Path) -> int:
    """Return the number in a file, 0 without the file."""
    return int(path.read_text()) if path.exists() else 0
