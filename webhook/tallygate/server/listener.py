"""The listening sockets of a server and of a device plugin."""

import socket

from tallygate.server.settings.value_types import Address


def open_listener(address: Address, backlog: int) -> socket.socket:
    """Return a listening TCP socket. Accepted connections inherit the options that are set here.

    Raises:
        OSError: if the address is not available.
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
