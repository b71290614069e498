"""tallygate: an admission gate for the things Kubernetes counts but does not understand.

docs/design/architecture.md shows the packages and the direction of their imports; import-linter checks it.
"""
