"""The table of settings in docs/settings.md: `python -m tests.server.settings_table` writes it there anew."""

from pathlib import Path

from webhook.server.settings.table import OPTIONS, Option

DOCUMENT = Path(__file__).parents[2] / "docs" / "settings.md"
BEGIN, END = "<!-- settings: begin -->\n", "<!-- settings: end -->\n"


def table() -> str:
    """A section for each setting."""
    return "\n".join(_section(option) for option in OPTIONS)


def _section(option: Option) -> str:
    default = f"`{option.default}`" if option.default else "none"
    many = " (may be given several times; separated by commas in the variable)" if option.value_type.is_list else ""
    return (
        f"### {option.name}\n\n"
        f"{option.description}\n\n"
        f"| flag | variable | file key | default |\n| --- | --- | --- | --- |\n"
        f"| `{option.flag} {option.value_type.metavar.replace('|', chr(92) + '|')}`{many} | `{option.variable}` "
        f"| `{option.name}` | {default} |\n"
    )


def rewritten(document: str) -> str:
    """The document with the table as it should be."""
    before, _, rest = document.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


if __name__ == "__main__":
    DOCUMENT.write_text(rewritten(DOCUMENT.read_text()))
