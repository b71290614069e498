"""Exact accounting of Kubernetes resources.

Pure functions over `webhook.objects`, Python integers, no I/O and no clock.
"""
