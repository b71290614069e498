"""A trial of certificates in a child process, before the serving process uses them.

granian is built so that a panic ends the process, and rustls rejects some certificates that OpenSSL accepts: with an
unusual curve, or from a CA certificate that it cannot parse. A user who replaces the files of a running gate must not
be able to end it.
"""

import os
import subprocess
import sys

import msgspec

from webhook.server.https.granian_worker import GranianWorker, HttpsSettings, HttpsStartError, open_listener
from webhook.server.https.tls_files import ServingCertificates
from webhook.server.settings.value_types import Address

_TIMEOUT_SECONDS = 30


def try_certificates(certificates: ServingCertificates, https_settings: HttpsSettings) -> None:
    """Start a server with these certificates in a child process, and end it at once.

    Raises:
        HttpsStartError: if the server does not start.
    """
    command = [sys.executable, "-m", __name__]
    payload = msgspec.msgpack.encode((certificates, https_settings))
    try:
        process = subprocess.run(command, input=payload, capture_output=True, timeout=_TIMEOUT_SECONDS, check=False)  # noqa: S603 - ourselves
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HttpsStartError(f"the certificate files could not be tried out: {error}") from None
    if process.returncode != 0:
        raise HttpsStartError(f"the certificate files cannot be served with: {_find_reason(process.stderr)}")


def _find_reason(output: bytes) -> str:
    """Return the reason in the child's error output, without its location in the library's source."""
    lines = [line for line in output.decode(errors="replace").splitlines() if " value: " in line]
    return lines[0].partition(" value: ")[2] if lines else "the TLS library refuses them"


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
