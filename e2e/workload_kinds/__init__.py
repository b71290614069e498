"""The kinds of other projects: their CRDs, documented examples and controllers, from the Go modules of the projects."""
