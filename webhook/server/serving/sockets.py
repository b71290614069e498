"""Listening sockets."""

import socket

from webhook.server.settings.kinds import Address


def open_listener(address: Address, backlog: int) -> socket.socket:
    """A TCP socket that listens. What is set here is inherited by the connections accepted from it.

    Raises:
        OSError: the address cannot be had.
    """
    listener = socket.socket(socket.AF_INET6 if ":" in address.host else socket.AF_INET)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.bind((address.host, address.port))
        listener.listen(backlog)
        listener.settimeout(0)
    except OSError:
        listener.close()
        raise
    return listener
