"""The schema of scenario files: descriptions for editors, and validation."""

from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tallygate.cli.scenarios.scenario_files import get_scenario_language

SCHEMA = get_scenario_language().schema


def list_properties(part: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every property of a part with its path; items of lists and values of maps are `*`."""
    properties = dict(part.get("properties", {}))
    for name in ("additionalProperties", "items"):
        if isinstance(part.get(name), dict):
            properties["*"] = part[name]
    for name, each in properties.items():
        yield f"{path}.{name}", each
        yield from list_properties(each, f"{path}.{name}")


PROPERTIES = dict(list_properties(dict(SCHEMA), ""))


def test_the_schema_is_valid_for_draft_2020_12() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert len(PROPERTIES) > 80


@pytest.mark.parametrize("path", PROPERTIES)
def test_every_property_has_a_title_a_description_and_examples(path: str) -> None:
    part = PROPERTIES[path]
    assert part["title"]
    assert part["description"].endswith(".")
    assert part["examples"]
    assert "type" in part


@pytest.mark.parametrize("path", PROPERTIES)
def test_every_optional_property_describes_its_default(path: str) -> None:
    parent, _, name = path.rpartition(".")
    outside = PROPERTIES.get(parent, dict(SCHEMA))
    description = (PROPERTIES[path]["description"] + outside["description"]).lower()
    assert (
        "default" in PROPERTIES[path] or "left out" in description or name == "*" or name in outside.get("required", [])
    )


@pytest.mark.parametrize("path", PROPERTIES)
def test_every_example_is_valid(path: str) -> None:
    part = PROPERTIES[path]
    for example in part["examples"]:
        checker = get_scenario_language().validator.format_checker
        Draft202012Validator(part, format_checker=checker).validate(example)


def test_a_step_with_two_actions_is_invalid() -> None:
    step = PROPERTIES[".steps.*"]
    assert Draft202012Validator(step).is_valid({"wait": "1s"})
    assert not Draft202012Validator(step).is_valid({"wait": "1s", "delete": {"pod": "a"}})
    assert not Draft202012Validator(step).is_valid({"namespace": "a"})
