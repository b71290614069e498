"""Tests of `tallygate migrate`."""
