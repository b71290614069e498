"""Ports of loopback for servers, which no other process takes."""

import atexit
import socket
import sys

_BOUND_SOCKETS: list[socket.socket] = []


def free_ports(count: int) -> list[int]:
    """Return distinct ports that are free now and stay this process's own for as long as it lives.

    Each stays bound here, without a listener. For a bind to any port, and for an outgoing connection, Linux
    chooses no port that is bound; a server that sets SO_REUSEADDR, as Go's do and the gate's, may listen on it beside
    that (`inet_csk_bind_conflict`). Elsewhere two bound sockets are one too many, and the ports are only free now.
    """
    sockets = [_bind() for _ in range(count)]
    ports: list[int] = [each.getsockname()[1] for each in sockets]
    if sys.platform == "linux":
        _BOUND_SOCKETS.extend(sockets)
    else:
        for each in sockets:
            each.close()
    return ports


@atexit.register
def _close_sockets() -> None:
    """Close the sockets at the end of the process; Python would warn of open ones."""
    for bound_socket in _BOUND_SOCKETS:
        bound_socket.close()


def _bind() -> socket.socket:
    bound_socket = socket.socket()
    bound_socket.bind(("127.0.0.1", 0))
    bound_socket.setsockopt(
        socket.SOL_SOCKET, socket.SO_REUSEADDR, 1
    )  # afterwards, so that it gets no port that is bound
    return bound_socket
