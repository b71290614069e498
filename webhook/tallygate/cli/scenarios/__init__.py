"""The command `test`.

A scenario runs against the server's gate and ledger reconciler in a simulated cluster. Only its steps advance the
clock.
"""
