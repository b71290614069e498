"""Manifests as typed objects: a file that cannot be read becomes a finding and hides no other."""
