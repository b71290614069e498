"""The trust of a client, as one context that many threads may connect by."""

import ssl
from collections.abc import Iterable
from typing import Self


class Trust(ssl.SSLContext):
    """An SSL context that trusts these authorities (PEM) only, and speaks HTTP/1.1.

    httpcore sets on the context, again for each connection, what connections negotiate. OpenSSL frees then what another
    thread is just sending, whose hello no server can read (`tlsv1 alert decode error`): so it is set once, here.
    """

    def __new__(cls, _: str) -> Self:
        """Create it for a client."""
        return super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)

    def __init__(self, authorities: str) -> None:
        self.load_verify_locations(cadata=authorities)
        super().set_alpn_protocols(["http/1.1"])

    def set_alpn_protocols(self, alpn_protocols: Iterable[str]) -> None:
        """Do nothing: the negotiated protocol is fixed.

        Raises:
            ValueError: if something else is wanted.
        """
        if "http/1.1" not in alpn_protocols:
            raise ValueError(f"this speaks HTTP/1.1, not {', '.join(alpn_protocols)}")
