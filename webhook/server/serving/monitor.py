"""The second port: metrics and health by plain HTTP, served by waitress in a thread."""

import threading

from flask import Flask
from waitress.server import create_server

from webhook.server.serving.sockets import open_listener
from webhook.server.settings.kinds import Address

_MONITOR_THREADS = 2
_MONITOR_BACKLOG = 128


def start_monitor(app: Flask, address: Address) -> int:
    """Serve the app in the background until the process ends, so that a drain can be watched; returns the port.

    Raises:
        OSError: the address cannot be had.
    """
    listener = open_listener(address, _MONITOR_BACKLOG)
    server = create_server(
        app, sockets=[listener], threads=_MONITOR_THREADS, ident="tallygate", clear_untrusted_proxy_headers=True
    )
    threading.Thread(target=server.run, name="monitor", daemon=True).start()
    port: int = listener.getsockname()[1]
    return port
