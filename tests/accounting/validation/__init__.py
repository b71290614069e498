"""Tests of what the API server says of resources, and of what it should have said."""
