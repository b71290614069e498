"""Ports of loopback for servers, which nobody else takes."""

import socket
import sys

_HELD: list[socket.socket] = []


def free_ports(count: int) -> list[int]:
    """Ports that are free now, each another, and stay this process's own for as long as it lives.

    Each is kept bound here, and nobody listens on it. To whoever asks for any port, and to a connection that goes out,
    Linux gives none that is bound; a server that sets SO_REUSEADDR, as Go's do and the gate's, may listen on it beside
    that (`inet_csk_bind_conflict`). Elsewhere two bound sockets are one too many, and the ports are only free now.
    """
    held = [_bound() for _ in range(count)]
    ports: list[int] = [each.getsockname()[1] for each in held]
    if sys.platform == "linux":
        _HELD.extend(held)
    else:
        for each in held:
            each.close()
    return ports


def _bound() -> socket.socket:
    bound = socket.socket()
    bound.bind(("127.0.0.1", 0))
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # afterwards, so that it is given no port that is held
    return bound
