"""The whole relay, put together: certificates, the gates that it asks, and what serves it."""

import gc
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from webhook.server.life import Life, ServeError
from webhook.server.relaying.asking import Relay
from webhook.server.relaying.gates import OtherGates, OwnGate
from webhook.server.relaying.layer import create_relay
from webhook.server.relaying.ports import Service
from webhook.server.reporting.logs import Logger, forward_library_logs
from webhook.server.settings.kinds import Address
from webhook.server.settings.table import Settings
from webhook.server.voice import speaking

_PATIENCE: Final = 60.0  # seconds; a gate beside it that makes its certificates itself takes one or two
_PAUSE: Final = 0.1


@dataclass(frozen=True, slots=True)
class Gates:
    """Who is asked: the gate beside the relay, and by which name others are, with who vouches for them."""

    own: Address
    others: tuple[Service, Path] | None = None


def relay(settings: Settings, gates: Gates) -> int:
    """Relay until SIGTERM or SIGINT; the exit code: 0, or 1 when requests had to be given up.

    Must be called in the main thread, where signals arrive.

    Raises:
        webhook.errors.TallygateError: it cannot start; the text says why, and what would help.
    """
    with speaking(settings.log_level) as voice:
        name = secrets.token_hex(8)
        others = OtherGates(*gates.others, name).ask if gates.others else None
        asking = Relay(OwnGate(gates.own).ask, others, voice, name)
        _wait_for([path for path in (settings.tls_cert, settings.tls_key) if path], voice.log)
        life = Life(partial(create_relay, asking.answer), settings, voice)
        forward_library_logs(voice.log)
        gc.collect()
        gc.freeze()  # as `serve` does
        return life.run()


def _wait_for(paths: Sequence[Path], log: Logger) -> None:
    """Wait until these are there: the gate beside it may be about to write them.

    Raises:
        ServeError: they are not within a minute.
    """
    deadline = time.monotonic() + _PATIENCE
    missing = [path for path in paths if not path.exists()]
    if missing:
        log.info("waiting", files=[str(path) for path in missing])
    while missing := [path for path in missing if not path.exists()]:
        if time.monotonic() > deadline:
            raise ServeError(f"{missing[0]}: not there after {_PATIENCE:.0f} s; who is to write it?")
        time.sleep(_PAUSE)
