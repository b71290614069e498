"""Tests of what the state of a cluster says about caps."""
