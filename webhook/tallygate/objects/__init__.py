"""Typed records of Kubernetes objects by API group: only the fields that are read, no meaning and no arithmetic."""
