"""promtool, built from Prometheus' Go module, for the rules of deploy/prometheus.

The rule of this package: Prometheus itself decides which alerts fire; nothing of it is simulated.
"""
