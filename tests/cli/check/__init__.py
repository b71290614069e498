"""Tests of what check asks and how it puts the answers together."""
