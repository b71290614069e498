"""Selectors of devices."""
