"""What a gate that is called by URL shows to this machine, and whether who trusts a bundle would talk to it.

Asked of OpenSSL, which is shown the whole chain. It need not be what the gate shows to the API server.
"""

import socket
import ssl
from collections.abc import Iterable
from urllib.parse import urlsplit

from webhook.cli.doctoring.facts import ServedCertificate, Unavailable

_CONNECT_SECONDS = 5.0
_MAX_MESSAGE_CHARACTERS = 300


def fetch_served_certificate(url: str, bundles: Iterable[bytes]) -> ServedCertificate | Unavailable:
    """What is shown there, and why who trusts each bundle would not go on; an empty one stands for the world's own."""
    parts = urlsplit(url)
    try:
        address = (parts.hostname or "", parts.port or 443)
        certificate = ssl.get_server_certificate(address, timeout=_CONNECT_SECONDS).encode()
        return ServedCertificate(certificate, {bundle: _find_trust_failure(address, bundle) for bundle in bundles})
    except (OSError, ValueError) as error:
        return Unavailable(f"{parts.netloc} cannot be reached from here: {error}"[:_MAX_MESSAGE_CHARACTERS])


def _find_trust_failure(address: tuple[str, int], bundle: bytes) -> str:
    """Why a client that trusts this bundle breaks off; empty where it does not.

    Raises:
        OSError: there is no connection at all.
    """
    try:
        context = ssl.create_default_context(cadata=bundle.decode("ascii") if bundle else None)
    except (ssl.SSLError, ValueError):
        return "caBundle is no certificate"
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # as Go: whatever is in the bundle is trusted
    try:
        with (
            socket.create_connection(address, _CONNECT_SECONDS) as raw_socket,
            context.wrap_socket(raw_socket, server_hostname=address[0]),
        ):
            return ""
    except ssl.SSLCertVerificationError as error:
        return error.verify_message
