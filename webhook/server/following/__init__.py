"""The cluster beside the gate: what is seen of it, and the ledgers kept true by that.

The rule of this room: threads, clocks and sockets are here, decisions are not; each part is started and stopped, and
says how it goes by a readiness check and metrics.
"""
