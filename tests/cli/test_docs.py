"""Documentation says everything that there is, and its examples are what they claim to be."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner

from tests.cli.docs import DOCS, documents
from tests.cli.test_command import EVERY
from webhook.cli.app import root
from webhook.cli.output import code_catalog
from webhook.server.settings.table import OPTIONS

REPOSITORY = DOCS.parent
_COMMANDS = "|".join(name.split()[1] for name, _ in EVERY if " " in name)


@pytest.mark.parametrize(("path", "text"), documents().items(), ids=lambda value: getattr(value, "name", ""))
def test_generated_pages_are_up_to_date(path: Path, text: str) -> None:
    """`python -m tests.cli.docs` writes them anew."""
    assert path.read_text() == text


def test_every_code_is_documented() -> None:
    """With its name as a heading, in the page that `explain` speaks of."""
    page = (DOCS / "codes.md").read_text()
    missing = [code.number for code in code_catalog.ALL_CODES if f"\n### {code.number} {code.slug}\n" not in page]
    assert not missing


def test_every_command_and_option_is_documented() -> None:
    """Under the heading of its command."""
    sections = dict(re.findall(r"^## (tallygate[ a-z]*)\n(.*?)(?=^## |\Z)", commands_page(), re.DOTALL | re.MULTILINE))
    for name, command in EVERY:
        for option in command.params:
            flags = option.opts if isinstance(option, click.Option) else []
            assert all(f"`{flag}`" in sections[name] for flag in flags), f"{name} {flags}"


def test_every_setting_is_documented() -> None:
    """By flag and by variable."""
    page = commands_page()
    assert all(f"`{option.flag}`" in page and option.variable in page for option in OPTIONS)


def commands_page() -> str:
    """docs/commands.md."""
    return (DOCS / "commands.md").read_text()


def shell_lines(path: Path) -> Iterator[str]:
    """Every line of shell in a page that runs tallygate, continued lines put together."""
    for block in re.findall(r"```(?:sh|yaml|console)\n(.*?)```", path.read_text(), re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            found = re.search(rf"(?:^|[ |(:])(tallygate (?:{_COMMANDS})\b[^|>)#]*)", line)
            if found:
                yield found[1].strip()


PAGES = ("README.md", "docs/commands.md", "docs/check-in-ci.md", "policies/README.md")


@pytest.mark.parametrize(
    "line", sorted({line for page in PAGES for line in shell_lines(REPOSITORY / page)}), ids=lambda line: line
)
def test_the_commands_in_the_pages_exist(line: str) -> None:
    """Every option and every choice in them is one that click takes."""
    words = shlex.split(line)[1:]
    command, names = root.get_command(click.Context(root), words[0]), [words[0]]
    rest = words[1:]
    if isinstance(command, click.Group):
        names.append(rest.pop(0))
        command = command.get_command(click.Context(command), names[-1])
    assert command is not None
    with command.make_context(" ".join(names), rest):
        pass


def hooks() -> list[dict[str, object]]:
    """The hooks that pre-commit offers of this repository."""
    read: list[dict[str, object]] = yaml.safe_load((REPOSITORY / ".pre-commit-hooks.yaml").read_text())
    return read


def test_hooks_run_as_pre_commit_runs_them(tmp_path: Path) -> None:
    """The entry with file names behind it: clean files pass, bad ones fail."""
    good, bad, rule = tmp_path / "good.yaml", tmp_path / "bad.yaml", tmp_path / "rule.yaml"
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    good.write_text(json.dumps({**pod, "spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": 1}}}]}}))
    bad.write_text(json.dumps({**pod, "spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": 0.5}}}]}}))
    rule.write_text("apiVersion: tallygate.dev/v1alpha1\nkind: ResourceRule\nmetadata: {name: x}\nspec: {}\n")
    entries = {str(hook["id"]): shlex.split(str(hook["entry"])) for hook in hooks()}
    assert sorted(entries) == ["tallygate-check", "tallygate-lint"]
    results = [
        CliRunner().invoke(root, [*entries[hook][1:], str(path)]).exit_code
        for hook, path in (("tallygate-check", good), ("tallygate-check", bad), ("tallygate-lint", rule))
    ]
    assert results == [0, 1, 1]
    assert all(hook["language"] == "python" and hook["entry"] for hook in hooks())


def test_every_field_of_the_data_is_documented() -> None:
    """Of a finding, and of the object that it is about."""
    page = (DOCS / "check-in-ci.md").read_text()
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{resources: {limits: {x.org/y: 500m}}}]}"
    data = json.loads(CliRunner().invoke(root, ["check", "-o", "json", "-"], input=pod).stdout)
    fields = {*data, *data["findings"][0], *data["findings"][0]["object"]}
    assert not [field for field in fields if f"`{field}`" not in page]
