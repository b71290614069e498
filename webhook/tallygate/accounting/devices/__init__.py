"""Devices, and the expressions that select them (k8s.io/dynamic-resource-allocation/cel)."""
