"""Events on the owners of pods: what a refusal or a warning said to a controller, where people look for it.

A person who applies a Deployment never speaks with the gate about its pods: its ReplicaSet does. The rule of this room:
nothing here may hold up an answer, change one, or make one fail; what there is no room for is dropped and counted.
"""
