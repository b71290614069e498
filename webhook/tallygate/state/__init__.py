"""Ledgers, namespaces and cluster state behind the ports of the gate; no adapter imports another adapter."""
