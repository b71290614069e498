"""Benchmarks: figures beside what one would use instead, in one run. Not tests: nothing here passes or fails.

`make bench` runs them all; docs/performance.md holds the figures of one run, and how they were taken.
"""
