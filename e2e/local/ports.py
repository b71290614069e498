"""Ports of loopback that nothing listens on."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack


def free_ports(count: int) -> Iterator[int]:
    """Ports that are free now, each another: all are held until all are found."""
    with ExitStack() as held:
        for _ in range(count):
            listening = held.enter_context(socket.socket())
            listening.bind(("127.0.0.1", 0))
            yield listening.getsockname()[1]
