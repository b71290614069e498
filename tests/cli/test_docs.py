"""The documentation covers every code, command, option and setting, and its examples are right."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from tallygate.answers import code_catalog
from tallygate.cli.app import root
from tallygate.server.settings.table import OPTIONS
from tests.cli.docs import DOCS, create_pages
from tests.cli.test_command import COMMANDS

REPOSITORY = DOCS.parent
_COMMANDS = "|".join(name.split()[1] for name, _ in COMMANDS if " " in name)


@pytest.mark.parametrize(("path", "text"), create_pages().items(), ids=lambda value: getattr(value, "name", ""))
def test_generated_pages_are_up_to_date(path: Path, text: str) -> None:
    assert path.read_text() == text


def test_every_code_is_documented() -> None:
    """Look for a heading with its name, in the page that `explain` names."""
    page = (DOCS / "reference" / "codes.md").read_text()
    missing = [code.number for code in code_catalog.list_codes() if f"\n### {code.number} {code.slug}\n" not in page]
    assert not missing


def test_every_command_and_option_is_documented() -> None:
    """Under the heading of its command."""
    sections = dict(
        re.findall(r"^## (tallygate[ a-z-]*)\n(.*?)(?=^## |\Z)", read_commands_page(), re.DOTALL | re.MULTILINE)
    )
    for name, command in COMMANDS:
        for option in command.params:
            flags = option.opts if isinstance(option, click.Option) and not option.hidden else []
            assert all(f"`{flag}`" in sections[name] for flag in flags), f"{name} {flags}"


def test_every_setting_is_documented() -> None:
    """By flag and by variable."""
    page = read_commands_page()
    assert all(f"`{option.flag}`" in page and option.variable in page for option in OPTIONS)


def read_commands_page() -> str:
    """Read docs/reference/commands.md."""
    return (DOCS / "reference" / "commands.md").read_text()


def list_shell_lines(path: Path) -> Iterator[str]:
    """Yield every shell line of a page that runs tallygate, with continuation lines joined."""
    for block in re.findall(r"```(?:sh|yaml|console)\n(.*?)```", path.read_text(), re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            found = re.search(rf"(?:^|[ |(:])(tallygate (?:{_COMMANDS})\b[^|>)#]*)", line)
            if found:
                yield found[1].strip()


PAGES = (
    "README.md",
    "docs/reference/commands.md",
    "docs/tasks/check-in-ci.md",
    "policies/README.md",
    *(
        path.relative_to(REPOSITORY).as_posix()
        for name in ("start", "tasks")
        for path in sorted((DOCS / name).glob("*.md"))
    ),
)


@pytest.mark.parametrize(
    "line", sorted({line for page in PAGES for line in list_shell_lines(REPOSITORY / page)}), ids=lambda line: line
)
def test_the_commands_in_the_pages_exist(line: str) -> None:
    """Parse every option and every choice with click."""
    words = shlex.split(line)[1:]
    command, names = root.get_command(click.Context(root), words[0]), [words[0]]
    rest = words[1:]
    if isinstance(command, click.Group):
        names.append(rest.pop(0))
        command = command.get_command(click.Context(command), names[-1])
    assert command is not None
    with command.make_context(" ".join(names), rest):
        pass


def test_every_field_of_the_data_is_documented() -> None:
    """Look for the fields of a finding and of its object."""
    page = (DOCS / "tasks" / "check-in-ci.md").read_text()
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{resources: {limits: {x.org/y: 500m}}}]}"
    data = json.loads(CliRunner().invoke(root, ["check", "-o", "json", "-"], input=pod).stdout)
    fields = {*data, *data["findings"][0], *data["findings"][0]["object"]}
    assert not [field for field in fields if f"`{field}`" not in page]
