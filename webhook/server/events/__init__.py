"""Events on the owners of pods.

No event delays, changes or fails a response, and events over a limit are dropped and counted.
"""
