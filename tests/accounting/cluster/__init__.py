"""The columns of a cluster."""
