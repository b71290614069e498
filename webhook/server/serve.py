"""The whole server, put together: policies, namespaces, ledgers, the gate, and what serves it."""

import gc
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial

from webhook.server.caps.metrics import CapMetrics
from webhook.server.composing.alone import alone
from webhook.server.composing.parts import Parts
from webhook.server.life import Life
from webhook.server.policies import LivePolicies
from webhook.server.ports import Beside
from webhook.server.reporting.logs import forward_library_logs
from webhook.server.settings.table import Settings
from webhook.server.voice import Voice, speaking
from webhook.server.web.app import create_app


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
    with speaking(settings.log_level) as voice, beside(settings, voice) as wanted:
        return _serve(wanted, voice)


def _serve(wanted: Beside, voice: Voice) -> int:
    settings = wanted.settings
    policies = LivePolicies(settings.policies, voice)
    parts = _parts(settings, policies, voice)
    checks = [policies.check, *parts.checks, *wanted.checks]
    life = Life(partial(create_app, parts.admit), settings, voice, checks)
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
