"""Tests of ledgers in the cluster."""
