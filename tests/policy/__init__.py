"""Tests of policy files: parsing, lint, matching and the store."""
