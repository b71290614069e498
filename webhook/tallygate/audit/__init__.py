"""The audit of stored objects by the rules and caps of the gate.

Only listing and report_writer use a cluster, and none has a clock or a thread.
"""
