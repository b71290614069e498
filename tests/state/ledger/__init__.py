"""Tests of the ledger's transitions, rule by rule."""
