"""Ledgers and Leases of the gate in a cluster: every write is one compare-and-swap on resourceVersion."""
