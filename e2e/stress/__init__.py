"""Stress tests of caps on the real local control plane: `python -m e2e.stress`.

The rule of this package: nothing here asks the gate, or a ledger, which amount is used. A watch of pods counts that,
after each event, with arithmetic of its own.
"""
