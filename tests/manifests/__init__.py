"""Tests of the reading of manifests."""
