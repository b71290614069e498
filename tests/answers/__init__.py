"""Tests of the validations of `tallygate check`, and of their combined findings."""
