"""The whole server, put together: policies, namespaces, ledgers, the gate, and what serves it."""

import gc
import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from importlib.metadata import PackageNotFoundError, version
from typing import NoReturn

from webhook.server.caps.metrics import CapMetrics
from webhook.server.composing.alone import alone
from webhook.server.composing.parts import Parts
from webhook.server.life import Life, Voice
from webhook.server.policies import LivePolicies
from webhook.server.ports import Beside
from webhook.server.reporting.lines import Lines
from webhook.server.reporting.logs import forward_library_logs, new_logger
from webhook.server.reporting.metrics import Build, Metrics
from webhook.server.settings.table import Settings


def _nothing_beside(settings: Settings, _: Voice) -> AbstractContextManager[Beside]:
    return nullcontext(Beside(settings))


def serve(
    settings: Settings, beside: Callable[[Settings, Voice], AbstractContextManager[Beside]] = _nothing_beside
) -> int:
    """Serve the gate until SIGTERM or SIGINT; the exit code: 0, or 1 when requests had to be given up.

    Must be called in the main thread, where signals arrive. `beside` runs from before the server starts until it has
    ended, and may change what it runs with.

    Raises:
        webhook.errors.TallygateError: it cannot start; the text says why, and what would help.
    """
    lines = Lines(sys.stderr.buffer)
    voice = Voice(new_logger(settings.log_level, lines=lines), Metrics(Build(_version())))
    try:
        with beside(settings, voice) as wanted:
            return _serve(wanted, voice)
    finally:
        lines.flush()


def _serve(wanted: Beside, voice: Voice) -> int:
    settings = wanted.settings
    policies = LivePolicies(settings.policies, voice)
    parts = _parts(settings, policies, voice)
    life = Life(parts.admit, settings, voice, [policies.check, *parts.checks, *wanted.checks])
    forward_library_logs(voice.log)
    policies.store.start()
    gc.collect()
    gc.freeze()  # what there is now stays: to look through all of it again takes 15 ms in which nobody is answered
    try:
        with parts.running():
            return life.run()
    finally:
        policies.store.stop()


def _parts(settings: Settings, policies: LivePolicies, voice: Voice) -> Parts:
    """The gate that the settings ask for."""
    caps = CapMetrics(voice.metrics.registry, voice.metrics.refusals, voice.log)
    if settings.cluster == "none":
        return alone(settings, policies, voice, caps)
    from webhook.server.composing.followed import beside_cluster  # noqa: PLC0415  see the docstring of its package

    return beside_cluster(settings, policies, voice, caps)


def leave(code: int) -> NoReturn:
    """End this process at once, with this exit code, after it has served.

    granian's threads outlive its workers by a moment. The interpreter's own end would take its lock from them while
    they are in Rust, which aborts the process.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _version() -> str:
    try:
        return version("tallygate")
    except PackageNotFoundError:
        return "unknown"
