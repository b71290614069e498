"""Tests of `tallygate predict` and `tallygate headroom`, with cases for `tests.cli.usage.command_case`."""

from pathlib import Path

CASES = Path(__file__).parent / "cases"
