"""Tests of tallygate.state."""
