"""Ledgers in the cluster, where replicas meet: one object of the kind CapLedger for each, in the gate's own namespace.

The rule of this room: `naming`, `wire`, `codec` and `definition` are pure and say what is stored; `calls` alone
touches sockets; `store` puts them together, and `leases` holds the leases of the gate's replicas. Every write is one
compare-and-swap on `resourceVersion`, with etcd behind it.
Nothing here knows another adapter of the state: how the API server is reached, and who asks, is handed in.
"""

from webhook.state.kubernetes.calls import Access
from webhook.state.kubernetes.leases import KubernetesLeases
from webhook.state.kubernetes.store import KubernetesLedgers

__all__ = ["Access", "KubernetesLeases", "KubernetesLedgers"]
