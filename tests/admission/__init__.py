"""Tests of the admission room."""
