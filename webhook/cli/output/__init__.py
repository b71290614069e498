"""Findings and data as text in every format: values go in, text comes out, and only tables prints."""
