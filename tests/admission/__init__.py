"""Tests of admission: requests, rules, responses and webhook configurations."""
