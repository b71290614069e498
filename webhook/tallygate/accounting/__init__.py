"""Exact accounting of Kubernetes resources.

Pure functions over `tallygate.objects`, with Python integers, without I/O and without a clock.
"""
