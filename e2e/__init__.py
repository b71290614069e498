"""Tests of the gate against a real Kubernetes control plane.

The rule of this package: nothing here is a mock. The control plane is built from Kubernetes' own modules, runs on this
machine's loopback only, and is removed when the tests end.
"""
