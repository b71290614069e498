"""Tests of sharing writes."""
