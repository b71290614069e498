"""The command `test`.

Scenarios run against the gate and the ledger reconciler of the server, in a simulated cluster; the clock advances
only by a step.
"""
