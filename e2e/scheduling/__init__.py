"""What the real scheduler says to random pods in random clusters: cases that the prediction is held to.

The rule of this package: a case is drawn from its seed and number alone, and the scheduler sees what is recorded and
nothing else. Nothing runs beside it that would change an object: no controllers, no kubelets.
"""
