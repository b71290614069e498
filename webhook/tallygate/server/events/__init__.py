"""Events on the owners of pods.

No event delays, changes or fails a response. Events over a limit are dropped and counted.
"""
