"""The child process in which certificates are tried, before the serving process uses them.

granian is built so that a panic ends the process, and rustls rejects some certificates that OpenSSL accepts: with an
unusual curve, or from a CA certificate that it cannot parse. A user who replaces the files of a running gate must not
be able to end it. `https_server.try_certificates` runs this module with `-m`.
"""

import os
import sys

import msgspec

from tallygate.server.https.https_server import GranianWorker, HttpsSettings
from tallygate.server.https.tls_files import ServingCertificates
from tallygate.server.listener import open_listener
from tallygate.server.settings.value_types import Address


def main() -> None:
    """Run the child process: read certificates and settings from standard input, and start a server with them."""
    certificates, https_settings = msgspec.msgpack.decode(
        sys.stdin.buffer.read(), type=tuple[ServingCertificates, HttpsSettings]
    )
    listener = open_listener(Address("127.0.0.1", 0), 1)
    GranianWorker(lambda *_: [], listener, https_settings).start(certificates)
    os._exit(0)  # it has no requests to finish


if __name__ == "__main__":
    main()
