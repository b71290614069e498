"""The schema of scenario files: what editors show, and what it lets through."""

from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from webhook.cli.scenarios.scenario_files import create_scenario_format_checker, get_scenario_language

SCHEMA = get_scenario_language().schema
DEFINITIONS: dict[str, Any] = SCHEMA["$defs"]


def resolved(part: dict[str, Any]) -> dict[str, Any]:
    """A part with what it refers to."""
    referred = part.get("$ref", "").rpartition("/")[2]
    return {**DEFINITIONS[referred], **part} if referred else part


def properties(part: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every property beneath a part by its path; items of lists and values of maps are `*`."""
    part = resolved(part)
    below = dict(part.get("properties", {}))
    for name in ("additionalProperties", "items"):
        if isinstance(part.get(name), dict):
            below["*"] = part[name]
    for name, each in below.items():
        yield f"{path}.{name}", resolved(each)
        yield from properties(each, f"{path}.{name}")


PROPERTIES = dict(properties(dict(SCHEMA), ""))


def test_it_is_a_schema_of_draft_2020_12() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert len(PROPERTIES) > 80


@pytest.mark.parametrize("path", PROPERTIES)
def test_every_property_tells_an_editor_what_it_is(path: str) -> None:
    part = PROPERTIES[path]
    assert part["title"]
    assert part["description"].endswith(".")
    assert part["examples"]
    assert "type" in part


@pytest.mark.parametrize("path", PROPERTIES)
def test_every_property_that_may_be_left_out_says_what_that_means(path: str) -> None:
    parent, _, name = path.rpartition(".")
    outside = PROPERTIES.get(parent, dict(SCHEMA))
    said = (PROPERTIES[path]["description"] + outside["description"]).lower()
    assert "default" in PROPERTIES[path] or "left out" in said or name == "*" or name in outside.get("required", [])


@pytest.mark.parametrize("path", PROPERTIES)
def test_every_example_is_valid(path: str) -> None:
    part = PROPERTIES[path]
    whole = {"$defs": DEFINITIONS, **part}
    for example in part["examples"]:
        Draft202012Validator(whole, format_checker=create_scenario_format_checker()).validate(example)


def test_a_step_that_does_two_things_is_marked_by_editors() -> None:
    step = {"$defs": DEFINITIONS, "$ref": "#/$defs/step"}
    assert Draft202012Validator(step).is_valid({"wait": "1s"})
    assert not Draft202012Validator(step).is_valid({"wait": "1s", "delete": {"pod": "a"}})
    assert not Draft202012Validator(step).is_valid({"namespace": "a"})
