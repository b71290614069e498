"""The order in which connections are closed that one sweep has found."""

import os
import socket
from contextlib import ExitStack

from tallygate.server.https.connection_guard import ConnectionGuard, ConnectionLimits, RequestLoad

_LIMITS = ConnectionLimits(
    connections=100,
    connections_per_address=3,
    waiting_threads=100,
    first_request_timeout=3600.0,
    request_timeout=3600.0,
    idle_timeout=3600.0,
)


def test_connections_that_one_sweep_has_found_are_closed_in_the_order_of_their_arrival() -> None:
    """Give later connections lower descriptors than earlier ones: numbers are used again."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        clients, accepted = [], []
        for _ in range(5):
            clients.append(stack.enter_context(socket.create_connection(listener.getsockname())))
            connection, _ = listener.accept()
            accepted.append(stack.enter_context(connection))
        descriptors = sorted((connection.fileno() for connection in accepted), reverse=True)
        spare = [os.dup(connection.fileno()) for connection in accepted]
        for copied, descriptor in zip(spare, descriptors, strict=True):
            os.dup2(copied, descriptor, inheritable=False)
            os.close(copied)
        guard = ConnectionGuard(listener.getsockname()[1], _LIMITS, RequestLoad)
        guard.sweep(1000.0)
        guard.sweep(1002.0)
        for client in clients:
            client.settimeout(0)
        assert [_is_cut(client) for client in clients] == [True, True, False, False, False]


def _is_cut(client: socket.socket) -> bool:
    try:
        return client.recv(1) == b""
    except BlockingIOError:
        return False
