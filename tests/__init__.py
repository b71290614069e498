"""Tests of tallygate. The folders mirror the packages; case files are in their `cases` folders."""
