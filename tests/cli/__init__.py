"""Tests of the command line: real files, real output."""
