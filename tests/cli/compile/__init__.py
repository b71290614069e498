"""Tests of `tallygate compile`."""

from pathlib import Path

CASES = Path(__file__).parent / "cases"
