"""The generated pages of documentation. `python -m tests.cli.docs` writes them; `test_docs` fails when they are old."""

import textwrap
from collections.abc import Iterator
from pathlib import Path

import click

from webhook.accounting.problem import Code
from webhook.cli.app import root
from webhook.cli.framework import Command, Group
from webhook.cli.output import code_catalog

DOCS = Path(__file__).parents[2] / "docs"

_GROUPS = {
    "TG0": ("Kubernetes", "What the API server's own validation refuses about resources, and what it lets through."),
    "TG1": ("Rules", "What a ResourceRule refuses, in the cluster and in `tallygate check`."),
    "TG2": ("Caps", "What a NamespaceCap refuses or warns of, and what a ResourceQuota will refuse."),
    "TG3": ("Policy files", "What `tallygate lint` finds. Errors keep a set from being loaded."),
    "TG4": ("Manifests", "What keeps `tallygate check` from checking a file, or makes the file mean something else."),
}
_AS_IT_IS = "\b\n"
_ABOUT_CODES = """\
Every problem has a code. `tallygate explain CODE` prints what stands here. This page is generated from the code
(`python -m tests.cli.docs`).
"""
_ABOUT_COMMANDS = """\
This page is generated from the commands' own help (`python -m tests.cli.docs`).

Exit codes: 0 clean, 1 findings, 2 misuse (arguments, unreadable files, broken policies), 70 a fault of tallygate
itself, 130 interrupted, 141 the reader of the output has gone. Colours are for terminals only, and NO_COLOR switches
them off.
"""


def documents() -> dict[Path, str]:
    """Every generated page."""
    return {DOCS / "codes.md": _codes(), DOCS / "commands.md": _commands()}


def _codes() -> str:
    parts = ["# Codes\n", _ABOUT_CODES]
    for prefix, (title, about) in _GROUPS.items():
        codes = [code for code in code_catalog.ALL_CODES if code.number.startswith(prefix)]
        parts += [f"## {title}\n", f"{about}\n", "| code | name | what |\n| --- | --- | --- |"]
        parts += [f"| [{code.number}](#{_anchor(code)}) | {code.slug} | {_cell(code.summary)} |" for code in codes]
        parts.append("")
        parts += [_code(code) for code in codes]
    return "\n".join(parts)


def _anchor(code: Code) -> str:
    return f"{code.number.lower()}-{code.slug}"


def _code(code: Code) -> str:
    return (
        f"### {code.number} {code.slug}\n\n{code.summary}\n\n{code.explanation}\n\n"
        f"Fails:\n\n{_fenced(code.invalid_example)}\nPasses:\n\n{_fenced(code.valid_example)}"
    )


def _fenced(text: str) -> str:
    return f"```yaml\n{text.rstrip()}\n```\n"


def _commands() -> str:
    parts = ["# Commands\n", _ABOUT_COMMANDS]
    parts += [_command(name, command) for name, command in _every(root, "tallygate")]
    return "\n".join(parts)


def _every(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    yield name, command
    if isinstance(command, click.Group):
        with click.Context(command) as context:
            for each in command.list_commands(context):
                inner = command.get_command(context, each)
                assert inner is not None
                yield from _every(inner, f"{name} {each}")


def _command(name: str, command: click.Command) -> str:
    assert isinstance(command, Command | Group)
    with click.Context(command, info_name=name) as context:
        usage = " ".join([name, *command.collect_usage_pieces(context)])
    examples = "\n".join(f"# {meaning}\n{line}" for line, meaning in command.examples)
    help_text = "\n\n".join(map(_paragraph, (command.help or "").split("\n\n")))
    parts = [f"## {name}\n", f"```text\n{usage}\n```\n", f"{help_text}\n", _options(command)]
    return "\n".join(part for part in (*parts, f"```sh\n{examples}\n```\n") if part)


def _paragraph(text: str) -> str:
    """A paragraph of help; one that click is to leave as it is stands for an example of a file."""
    if text.startswith(_AS_IT_IS):
        return _fenced(textwrap.dedent(text.removeprefix(_AS_IT_IS))).rstrip()
    return " ".join(text.split())


def _options(command: click.Command) -> str:
    rows = [_row(option) for option in command.params if isinstance(option, click.Option)]
    return "\n".join(["| option | meaning |", "| --- | --- |", *rows, ""]) if rows else ""


def _row(option: click.Option) -> str:
    flags = " ".join(f"`{flag}`" for flag in option.opts)
    return f"| {flags}{_metavar(option)} | {_cell(option.help or '')}{_default(option)} |"


def _metavar(option: click.Option) -> str:
    if option.is_flag:
        return ""
    choices = option.type.choices if isinstance(option.type, click.Choice) else ()
    return f" `{option.metavar or '|'.join(map(str, choices))}`".replace("|", "\\|")


def _default(option: click.Option) -> str:
    return f" Default: {option.default}." if option.show_default and option.default else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    for path, text in documents().items():
        path.write_text(text)
