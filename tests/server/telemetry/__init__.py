"""Tests of the metrics of caps."""
