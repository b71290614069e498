"""Helm, built from its Go module, for the chart of deploy/helm.

The rule of this room: what Helm says and does is its own; nothing of it is played.
"""
