"""Ledgers in the cluster, shared by the replicas: each is one CapLedger object, in the gate's own namespace.

The modules `naming`, `wire`, `codec` and `definition` are pure and define the stored form; only `calls` uses sockets;
`store` combines them, and `leases` stores the leases of the gate's replicas. Every write is one compare-and-swap on
`resourceVersion`, which etcd enforces. The package imports no other adapter of the state: its caller passes in the
address of the API server and the credentials.
"""

from webhook.state.kubernetes.calls import Http1ClientConfig
from webhook.state.kubernetes.leases import KubernetesLeaseStore
from webhook.state.kubernetes.store import KubernetesLedgerStore

__all__ = ["Http1ClientConfig", "KubernetesLeaseStore", "KubernetesLedgerStore"]
