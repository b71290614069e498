"""Tests of tallygate. The folders mirror the packages; cases are files beside them."""
