"""The records of answers: their schema is that of what is written, and their lines show no more than the JSON."""

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator

from tallygate.answers.answer_json import VisibleNames
from tallygate.answers.answer_records import AskAnswer, PredictionRecord
from tallygate.answers.prediction_lines import format_counts, format_details
from tests.answers.asked_clusters import ALL_NAMES, NO_NAMES, Ask, Object
from tests.answers.test_answer_json import MARK, NODE_MARK, RECORDED, ask, mark_names
from tests.schemas import generate_answer_schema

VISIBLE = (ALL_NAMES, NO_NAMES, VisibleNames(frozenset({"team-a"})), VisibleNames(nodes=False))


def create_strict_validator() -> Draft202012Validator:
    """Return a validator by the schema that also refuses keys without a record."""
    schema = generate_answer_schema()
    for definition in schema["$defs"].values():
        definition["additionalProperties"] = False
    return Draft202012Validator(schema)


def read_predictions(content: Object) -> Iterator[PredictionRecord]:
    for each in msgspec.convert(content, AskAnswer).objects:
        yield from each.predictions


def list_lines(content: Object) -> list[str]:
    """Return the lines of all predictions of an answer."""
    return [
        line
        for prediction in read_predictions(content)
        for line in (format_counts(prediction), *format_details(prediction))
    ]


@pytest.mark.parametrize("visible", VISIBLE)
def test_an_answer_with_each_kind_of_reason_has_the_form_of_the_schema(visible: VisibleNames) -> None:
    create_strict_validator().validate(ask(visible))


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda each: each.name)
def test_recorded_answers_have_the_form_of_the_schema(recorded: Ask) -> None:
    validator = create_strict_validator()
    for visible in (ALL_NAMES, NO_NAMES):
        validator.validate(recorded.answer(recorded.build_state(), visible))


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda each: each.name)
def test_lines_have_no_name_that_is_hidden(recorded: Ask) -> None:
    lines = list_lines(recorded.answer(recorded.build_state(mark_names(recorded)), NO_NAMES))
    assert MARK not in json.dumps(lines)


def test_lines_count_what_is_hidden() -> None:
    hidden, shown = "\n".join(list_lines(ask(NO_NAMES))), "\n".join(list_lines(ask(ALL_NAMES)))
    assert not {MARK, NODE_MARK} & {mark for mark in (MARK, NODE_MARK) if mark in hidden}
    assert "the scheduler preempts pods on [node]: 1 pod of other namespaces" in hidden
    assert "claim of another namespace gives back 1 device of pool [device]" in hidden
    assert "used by 1 pod of other namespaces" in hidden
    assert all(len({*lines}) == len(lines) for lines in map(list, map(format_details, read_predictions(ask(NO_NAMES)))))
    assert MARK in shown
    assert NODE_MARK in shown


def test_a_reader_passes_over_keys_of_later_versions() -> None:
    content: dict[str, Any] = json.loads(json.dumps(ask(ALL_NAMES)))
    content["later"] = 1
    content["objects"][0]["later"] = 1
    assert msgspec.convert(content, AskAnswer) == msgspec.convert(ask(ALL_NAMES), AskAnswer)
