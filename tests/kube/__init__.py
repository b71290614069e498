"""The client of API servers."""
