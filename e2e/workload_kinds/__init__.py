"""The definitions and documented examples of the known kinds, from the Go modules of their projects."""
