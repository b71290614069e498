"""The whole relay, put together: certificates, the gates that it asks, and what serves it."""

import gc
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from webhook.server.life import Lifecycle, ServeError
from webhook.server.relaying.asking import Relay
from webhook.server.relaying.gates import PeerUpstream, LocalUpstream
from webhook.server.relaying.layer import create_relay_app
from webhook.server.relaying.ports import PeerService
from webhook.server.reporting.logs import Logger, forward_library_logs
from webhook.server.settings.kinds import Address
from webhook.server.settings.table import Settings
from webhook.server.voice import start_telemetry

_FILE_TIMEOUT_SECONDS: Final = 60.0  # seconds; a gate beside it that makes its certificates itself takes one or two
_FILE_POLL_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True)
class Upstreams:
    """Who is asked: the gate beside the relay, and by which name others are, with who vouches for them."""

    local: Address
    peer: tuple[PeerService, Path] | None = None


def serve_relay(settings: Settings, upstreams: Upstreams) -> int:
    """Relay until SIGTERM or SIGINT; the exit code: 0, or 1 when requests had to be given up.

    Must be called in the main thread, where signals arrive.

    Raises:
        webhook.errors.TallygateError: it cannot start; the text says why, and what would help.
    """
    with start_telemetry(settings.log_level) as telemetry:
        name = secrets.token_hex(8)
        send_to_peer = PeerUpstream(*upstreams.peer, name).send if upstreams.peer else None
        failover = Relay(LocalUpstream(upstreams.local).send, send_to_peer, telemetry, name)
        _wait_for_files([path for path in (settings.tls_cert, settings.tls_key) if path], telemetry.log)
        lifecycle = Lifecycle(partial(create_relay_app, failover.forward), settings, telemetry)
        forward_library_logs(telemetry.log)
        gc.collect()
        gc.freeze()  # as `serve` does
        return lifecycle.run()


def _wait_for_files(paths: Sequence[Path], log: Logger) -> None:
    """Wait until these are there: the gate beside it may be about to write them.

    Raises:
        ServeError: they are not within a minute.
    """
    deadline = time.monotonic() + _FILE_TIMEOUT_SECONDS
    missing = [path for path in paths if not path.exists()]
    if missing:
        log.info("waiting", files=[str(path) for path in missing])
    while missing := [path for path in missing if not path.exists()]:
        if time.monotonic() > deadline:
            raise ServeError(f"{missing[0]}: not there after {_FILE_TIMEOUT_SECONDS:.0f} s; who is to write it?")
        time.sleep(_FILE_POLL_SECONDS)
