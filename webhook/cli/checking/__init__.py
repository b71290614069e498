"""Checking: what would be said of manifests, were they sent to the cluster now.

The rule of this room: it asks the rooms below the very questions that the gate asks, and puts their answers beside the
lines they are about. It decides nothing itself and prints nothing.
"""
