"""Tests of what Prometheus is told of caps."""
