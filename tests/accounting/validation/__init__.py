"""Validation of resources: the API server's checks, and stricter ones."""
