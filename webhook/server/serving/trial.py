"""A trial of certificates in a process of its own, before the serving one is trusted with them.

granian is built so that a panic ends the process, and rustls has reasons of its own to refuse what OpenSSL takes: an
unusual curve, an authority that it cannot read. Whoever replaces the files of a running gate must not be able to end
it.
"""

import os
import subprocess
import sys

import msgspec

from webhook.server.serving.generation import Generation, StartError, Transport
from webhook.server.serving.sockets import listening_socket
from webhook.server.serving.tls import Certificates
from webhook.server.settings.kinds import Address

_PATIENCE_SECONDS = 30


def try_out(certificates: Certificates, transport: Transport) -> None:
    """Start a server with these certificates in a child process, and end it at once.

    Raises:
        StartError: it does not start.
    """
    command = [sys.executable, "-m", __name__]
    given = msgspec.msgpack.encode((certificates, transport))
    try:
        trial = subprocess.run(command, input=given, capture_output=True, timeout=_PATIENCE_SECONDS, check=False)  # noqa: S603 - ourselves
    except (OSError, subprocess.TimeoutExpired) as error:
        raise StartError(f"the certificate files could not be tried out: {error}") from None
    if trial.returncode != 0:
        raise StartError(f"the certificate files cannot be served with: {_reason(trial.stderr)}")


def _reason(output: bytes) -> str:
    """What the child said, without where in the library it was said."""
    lines = [line for line in output.decode(errors="replace").splitlines() if " value: " in line]
    return lines[0].partition(" value: ")[2] if lines else "the TLS library refuses them"


def main() -> None:
    """Be the child."""
    certificates, transport = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=tuple[Certificates, Transport])
    listener = listening_socket(Address("127.0.0.1", 0), 1)
    Generation(lambda *_: [], listener, transport).start(certificates)
    os._exit(0)  # nothing was served, so there is nothing to end in good order


if __name__ == "__main__":
    main()
