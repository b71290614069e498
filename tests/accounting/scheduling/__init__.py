"""Scheduling: the product's columns beside the reference scheduler in `reference`, plugin by plugin."""
