"""The whole server, put together: policies, namespaces, ledgers, the gate, and what serves it."""

import gc
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial

from webhook.server.caps.metrics import CapMetrics
from webhook.server.composing.alone import create_standalone_gate
from webhook.server.composing.parts import GateParts
from webhook.server.life import Lifecycle
from webhook.server.policies import PolicyReloader
from webhook.server.ports import ServerSetup
from webhook.server.reporting.logs import forward_library_logs
from webhook.server.settings.table import Settings
from webhook.server.voice import Telemetry, start_telemetry
from webhook.server.web.app import create_app


def _use_settings(settings: Settings, _: Telemetry) -> AbstractContextManager[ServerSetup]:
    return nullcontext(ServerSetup(settings))


def serve(
    settings: Settings, prepare: Callable[[Settings, Telemetry], AbstractContextManager[ServerSetup]] = _use_settings
) -> int:
    """Serve the gate until SIGTERM or SIGINT; the exit code: 0, or 1 when requests had to be given up.

    Must be called in the main thread, where signals arrive. `beside` runs from before the server starts until it has
    ended, and may change what it runs with.

    Raises:
        webhook.errors.TallygateError: it cannot start; the text says why, and what would help.
    """
    with start_telemetry(settings.log_level) as telemetry, prepare(settings, telemetry) as setup:
        return _run(setup, telemetry)


def _run(setup: ServerSetup, telemetry: Telemetry) -> int:
    settings = setup.settings
    policy_reloader = PolicyReloader(settings.policies, telemetry)
    gate_parts = _create_gate_parts(settings, policy_reloader, telemetry)
    checks = [policy_reloader.check, *gate_parts.checks, *setup.checks]
    lifecycle = Lifecycle(partial(create_app, gate_parts.admit), settings, telemetry, checks)
    forward_library_logs(telemetry.log)
    policy_reloader.store.start()
    gc.collect()
    gc.freeze()  # what there is now stays: to look through all of it again takes 15 ms in which nobody is answered
    try:
        with gate_parts.run_workers():
            return lifecycle.run()
    finally:
        policy_reloader.store.stop()


def _create_gate_parts(settings: Settings, policy_reloader: PolicyReloader, telemetry: Telemetry) -> GateParts:
    """The gate that the settings ask for."""
    cap_metrics = CapMetrics(telemetry.metrics.registry, telemetry.metrics.rejections, telemetry.log)
    if settings.cluster == "none":
        return create_standalone_gate(settings, policy_reloader, telemetry, cap_metrics)
    from webhook.server.composing.followed import create_cluster_gate  # noqa: PLC0415  see the docstring of its package

    return create_cluster_gate(settings, policy_reloader, telemetry, cap_metrics)
