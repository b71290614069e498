"""The devices that kube-scheduler allocates to claims (k8s.io/dynamic-resource-allocation/structured, incubating).

The functions are pure: a node, the slices of devices, the allocated state and claims in, allocations or a reason out.
"""
