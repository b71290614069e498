"""Scheduling: the product's columns compared with the reference scheduler in `reference`, plugin by plugin."""
