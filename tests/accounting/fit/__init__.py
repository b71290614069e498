"""Filters, scores and verdicts over the columns of a cluster."""
