"""The table of checks in docs/doctor.md. `python -m tests.cli.doctor.table` writes it, `test_document` compares."""

from pathlib import Path

from webhook.cli.doctor.command import CHECKS

PAGE = Path(__file__).parents[3] / "docs" / "doctor.md"
BEGIN, END = "<!-- checks: begin -->\n", "<!-- checks: end -->\n"


def table() -> str:
    """One row a check."""
    rows = [f"| `{each.name}` | {each.title} | {each.failure_conditions} |" for each in CHECKS]
    return "\n".join(["| check | what it says when it is PASS | else |", "| --- | --- | --- |", *rows, ""])


def rewritten(page: str) -> str:
    """The page with the table as it is now."""
    head, rest = page.split(BEGIN)
    return f"{head}{BEGIN}\n{table()}\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    PAGE.write_text(rewritten(PAGE.read_text()))
