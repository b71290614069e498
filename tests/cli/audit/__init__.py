"""Tests of `tallygate audit`."""

from pathlib import Path

CASES = Path(__file__).parent / "cases"
