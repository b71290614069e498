"""tallygate: an admission gate for the things Kubernetes counts but does not understand.

The rooms, and which may import which, are drawn in docs/architecture.md and held by import-linter.
"""
