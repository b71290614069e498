"""Tests of batched ledgers."""
