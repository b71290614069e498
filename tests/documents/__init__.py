"""Tests of documents: positions, scalars, limits and errors of both dialects."""
