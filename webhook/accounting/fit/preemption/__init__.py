"""Whom the scheduler would ask to leave for a pod, and where: DefaultPreemption of Kubernetes 1.36.

The rule of this room: pods are only thought away, and a cluster is afterwards as it was. Nothing here says that
anybody should leave; it says what the scheduler would do, and in its words why it would not.
"""
