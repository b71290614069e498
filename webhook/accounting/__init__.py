"""Exact accounting of Kubernetes resources.

Pure functions over `webhook.objects`, with Python integers, without I/O and without a clock.
"""
