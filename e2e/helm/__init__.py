"""Helm, built from its Go module, for the chart of deploy/helm.

The rule of this package: Helm itself runs; nothing of it is simulated.
"""
