"""The table of checks in docs/operate/doctor.md. `python -m tests.cli.doctor.check_table` writes it."""

from pathlib import Path

from tallygate.cli.doctor.command import CHECKS

REPOSITORY = Path(__file__).parents[3]
PAGE = REPOSITORY / "docs" / "operate" / "doctor.md"
BEGIN, END = "<!-- checks: begin -->\n", "<!-- checks: end -->\n"


def create_table() -> str:
    """Return the table with one row for each check."""
    rows = [f"| `{each.name}` | {each.title} | {each.failure_conditions} |" for each in CHECKS]
    return "\n".join(["| check | meaning of PASS | otherwise |", "| --- | --- | --- |", *rows, ""])


def update_table(page: str) -> str:
    """Return the page with the current table."""
    head, rest = page.split(BEGIN)
    return f"{head}{BEGIN}\n{create_table()}\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    PAGE.write_text(update_table(PAGE.read_text()))
