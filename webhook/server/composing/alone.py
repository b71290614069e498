"""The gate without a cluster: labels from a file, and promises that nothing settles."""

import time

from webhook.gate.gate import Gate
from webhook.server.caps.metrics import CapMetrics
from webhook.server.composing.parts import GateParts, create_nonce_source
from webhook.server.following.unplaced import NoSnapshotProvider
from webhook.server.life import ServeError
from webhook.server.policies import PolicyReloader
from webhook.server.settings.table import Settings
from webhook.server.voice import Telemetry
from webhook.state import in_memory
from webhook.state.in_memory import MemoryLedgers


def create_standalone_gate(
    settings: Settings, policy_reloader: PolicyReloader, telemetry: Telemetry, cap_metrics: CapMetrics
) -> GateParts:
    """A gate that follows no cluster.

    Raises:
        ServeError: the settings ask for what only a cluster has.
        TallygateError: the file of namespaces cannot be read.
    """
    if settings.ledgers == "kubernetes":
        raise ServeError("ledgers can be kept in a cluster only where there is one: name it by --cluster")
    if settings.audit_every:
        raise ServeError("what is stored can be audited only where there is a cluster: name it by --cluster")
    path = settings.namespaces_file
    gate = Gate(
        policies=policy_reloader.store.current,
        namespaces=in_memory.read_namespaces(path) if path else in_memory.UnknownNamespaces(),
        ledgers=cap_metrics.wrap_ledgers(MemoryLedgers(observer=cap_metrics.memory_observer)),
        monotonic=time.monotonic,
        nonce=create_nonce_source(),
        snapshots=NoSnapshotProvider(telemetry.log),
    )
    cap_metrics.register(gate.get_active_caps, is_standalone=True)
    return GateParts(gate.admit)
