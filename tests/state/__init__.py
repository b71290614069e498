"""Tests of the state room."""
