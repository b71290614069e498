"""The whole server, put together: policies, namespaces, ledgers, the gate, and what serves it."""

import itertools
import os
import secrets
import sys
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import NoReturn

from webhook.gate import Gate
from webhook.server.life import Life, Voice
from webhook.server.lines import Lines
from webhook.server.logs import forward_library_logs, new_logger
from webhook.server.metrics import Build, Metrics
from webhook.server.policies import LivePolicies
from webhook.server.settings import Settings
from webhook.state import namespaces
from webhook.state.memory import MemoryLedgers
from webhook.state.ports import NamespaceLister


def serve(settings: Settings) -> int:
    """Serve the gate until SIGTERM or SIGINT; the exit code: 0, or 1 when requests had to be given up.

    Must be called in the main thread, where signals arrive.

    Raises:
        webhook.errors.TallygateError: it cannot start; the text says why, and what would help.
    """
    lines = Lines(sys.stderr.buffer)
    voice = Voice(new_logger(settings.log_level, lines=lines), Metrics(Build(_version())))
    policies = LivePolicies(settings.policies, voice)
    gate = Gate(
        policies=policies.store.current,
        namespaces=_lister(settings),
        ledgers=MemoryLedgers(),
        monotonic=time.monotonic,
        nonce=_nonces(),
    )
    life = Life(gate.admit, settings, voice, [policies.check])
    forward_library_logs(voice.log)
    policies.store.start()
    try:
        return life.run()
    finally:
        policies.store.stop()
        lines.flush()


def leave(code: int) -> NoReturn:
    """End this process at once, with this exit code, after it has served.

    granian's threads outlive its workers by a moment. The interpreter's own end would take its lock from them while
    they are in Rust, which aborts the process.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _lister(settings: Settings) -> NamespaceLister:
    path = settings.namespaces_file
    return namespaces.read(path) if path else namespaces.UnknownNamespaces()


def _nonces() -> Callable[[], str]:
    """Texts that no other attempt of any process has: random for this process, then counted."""
    process, numbers = secrets.token_hex(8), itertools.count()
    return lambda: f"{process}-{next(numbers):x}"


def _version() -> str:
    try:
        return version("tallygate")
    except PackageNotFoundError:
        return "unknown"
