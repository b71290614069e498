"""Benchmarks: figures of tallygate and of its alternatives, in one run. They are no tests: none passes or fails.

`make bench` runs them all; docs/design/performance.md has the figures of one run and the method.
"""
