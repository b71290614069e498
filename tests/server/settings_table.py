"""The table of settings in docs/reference/settings.md: `python -m tests.server.settings_table` writes it there."""

from pathlib import Path

from tallygate.server.settings.table import OPTIONS, Option

DOCUMENT = Path(__file__).parents[2] / "docs" / "reference" / "settings.md"
BEGIN, END = "<!-- settings: begin -->\n", "<!-- settings: end -->\n"


def render_table() -> str:
    """Return a section for each setting."""
    return "\n".join(_render_section(option) for option in OPTIONS)


def _render_section(option: Option) -> str:
    default = f"`{option.default}`" if option.default else "none"
    many = " (may be given several times; separated by commas in the variable)" if option.value_type.is_list else ""
    return (
        f"### {option.name}\n\n"
        f"{option.description}\n\n"
        f"| flag | variable | file key | default |\n| --- | --- | --- | --- |\n"
        f"| `{option.flag} {option.value_type.metavar.replace('|', chr(92) + '|')}`{many} | `{option.variable}` "
        f"| `{option.name}` | {default} |\n"
    )


def update_table(document: str) -> str:
    """Return the document with the current table."""
    before, _, rest = document.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{render_table()}\n{END}{after}"


if __name__ == "__main__":
    DOCUMENT.write_text(update_table(DOCUMENT.read_text()))
