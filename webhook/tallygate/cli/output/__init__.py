"""Findings and data as text in every format: pure functions of values, except that `tables` prints."""
