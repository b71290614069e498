"""promtool, built from Prometheus' Go module, for the rules of deploy/prometheus.

The rule of this room: what fires and what does not is Prometheus' own judgement; nothing of it is played.
"""
