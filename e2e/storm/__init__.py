"""Caps under storms of pods, on the real local control plane: `python -m e2e.storm`.

The rule of this room: nothing here asks the gate, or a ledger, how much is held. A watch of pods counts that, after
each event, with arithmetic of its own.
"""
