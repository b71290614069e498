"""A kind cluster of the suite's own, on the container engine of this machine.

The rule of this package: the cluster, its kubeconfig and everything else made here end with it, however it ends; the
user's own kubeconfig is never touched.
"""
