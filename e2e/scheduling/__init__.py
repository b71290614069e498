"""The results of the real scheduler for random pods in random clusters, which the prediction is compared with.

The rule of this package: a case depends on its seed and number alone, and the scheduler sees exactly the recorded
objects. No other component runs that would change an object: no controllers, no kubelets.
"""
