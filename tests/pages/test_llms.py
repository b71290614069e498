"""The texts for language models: the list of pages, and the skill."""

import re

import click
import pytest
import yaml

from tallygate.accounting.scheduling.prediction import Feasibility
from tallygate.cli.app import root
from tests.pages.llms import PATH, create_text
from tests.pages.page import DOCS

_SKILL = DOCS / "skills" / "tallygate-pods" / "SKILL.md"
_SCHEMAS = tuple(sorted((DOCS.parent / "webhook" / "tallygate" / "answers").glob("*schema.json")))
_COMMANDS = re.findall(r"`tallygate ([^`]*-o json)`", _SKILL.read_text(encoding="utf-8"))
_OF_COMMANDS = {"items", "passes", "findings", "code"}  # keys of explain and check, which have no schema


def test_the_list_of_pages_is_that_of_the_site() -> None:
    assert PATH.read_text(encoding="utf-8") == create_text()


def test_the_list_of_pages_has_a_sentence_for_each() -> None:
    entries = [line for line in create_text().splitlines() if line.startswith("- ")]
    assert len(entries) > 50
    assert [entry for entry in entries if not entry.endswith((".", "?"))] == []


def test_the_skill_says_when_it_is_to_be_used() -> None:
    _, front, _ = _SKILL.read_text(encoding="utf-8").split("---\n", 2)
    about = yaml.safe_load(front)
    assert about["name"] == _SKILL.parent.name
    assert "Use it for" in about["description"]


@pytest.mark.parametrize("command", _COMMANDS)
def test_the_skill_names_options_that_commands_have(command: str) -> None:
    name, *words = command.split()
    with click.Context(root) as context:
        found = root.get_command(context, name)
    assert found is not None
    options = {option for parameter in found.params for option in parameter.opts}
    assert {word for word in words if word.startswith("-")} <= options


def test_the_skill_names_every_verdict() -> None:
    table = _SKILL.read_text(encoding="utf-8").split("| `verdict` |")[1].split("\n\n")[0]
    assert re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE) == [
        verdict.value for verdict in (Feasibility.NOW, Feasibility.NOT_NOW, Feasibility.NEVER)
    ] + [Feasibility.REJECTED.value, Feasibility.UNKNOWN.value]


def test_the_skill_names_keys_that_answers_have() -> None:
    text = _SKILL.read_text(encoding="utf-8").split("## Read the answer")[1].split("## Answer the user")[0]
    paths = re.findall(r"`([a-zA-Z]+(?:\[\]\.[a-zA-Z]+|\[\])*)`", text)
    named = {key for path in paths for key in re.findall(r"\w+", path)}
    schemas = [schema.read_text(encoding="utf-8") for schema in _SCHEMAS]
    answered = {key for schema in schemas for key in re.findall(r'"(\w+)": \{', schema)}
    with click.Context(root) as context:
        commands = set(root.list_commands(context))
    assert {"verdict", "remedies", "hardUntil"} <= named
    assert named - commands - answered - _OF_COMMANDS - {"null", "unknown"} == set()
