"""The state of a cluster.

Read from its API server, watched there, or read from a snapshot, always in the stores by which the gate counts.
"""
