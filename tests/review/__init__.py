"""Tests of `tallygate.review`."""
