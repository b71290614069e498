"""The gate where it lives: tests against a real Kubernetes control plane.

The rule of this package: nothing here is a mock. What is tested against is built from Kubernetes' own modules, runs on
this machine's loopback only, and is gone when the tests end.
"""
