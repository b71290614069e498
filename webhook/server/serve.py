"""The whole server, put together: policies, namespaces, ledgers, the gate, and what serves it."""

import itertools
import secrets
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version

from webhook.gate import Gate
from webhook.server.life import Life, Voice
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
    voice = Voice(new_logger(settings.log_level), Metrics(Build(_version())))
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
