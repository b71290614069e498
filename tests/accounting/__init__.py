"""Tests of exact accounting."""
