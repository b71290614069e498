"""Reporting: log lines and metrics. It reports what it is told and decides nothing."""
