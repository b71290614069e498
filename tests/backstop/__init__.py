"""Tests of `tallygate.backstop`."""
