"""JSON log and Prometheus metrics: every label has a bounded set of values, and nothing is decided here."""
