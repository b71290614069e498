"""`tallygate predict` and `tallygate headroom`. Cases are folders, read by `tests.cli.usage.case`."""

from pathlib import Path

CASES = Path(__file__).parent / "cases"
