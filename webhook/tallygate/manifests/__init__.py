"""Manifests: their text with positions, the objects in them, and the findings about them.

Rule: it reads bytes and files, and knows neither the state of a cluster nor what a policy decides.
"""
