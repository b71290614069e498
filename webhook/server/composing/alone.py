"""The gate without a cluster: labels from a file, and promises that nothing settles."""

import time

from webhook.gate.gate import Gate
from webhook.server.caps.metrics import CapMetrics
from webhook.server.composing.parts import Parts, new_nonces
from webhook.server.following.unplaced import NoPlacing
from webhook.server.life import ServeError
from webhook.server.policies import LivePolicies
from webhook.server.settings.table import Settings
from webhook.server.voice import Voice
from webhook.state import in_memory
from webhook.state.in_memory import MemoryLedgers


def alone(settings: Settings, policies: LivePolicies, voice: Voice, caps: CapMetrics) -> Parts:
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
        policies=policies.store.current,
        namespaces=in_memory.read_namespaces(path) if path else in_memory.UnknownNamespaces(),
        ledgers=caps.counted(MemoryLedgers(observer=caps.in_memory)),
        monotonic=time.monotonic,
        nonce=new_nonces(),
        snapshots=NoPlacing(voice.log),
    )
    caps.tell(gate.get_active_caps, alone=True)
    return Parts(gate.admit)
