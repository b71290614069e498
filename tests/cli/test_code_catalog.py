"""The catalogue of codes: numbers, names and explanations."""

import re
from pathlib import Path

import pytest

from tallygate.answers import code_catalog
from tallygate.answers.code_catalog import Code
from tallygate.policy.schema import load_json_schema


def test_numbers_are_unique_and_in_order() -> None:
    numbers = [code.number for code in code_catalog.list_codes()]
    assert numbers == sorted(set(numbers), key=lambda number: (number.startswith("TG0"), number))
    assert all(re.fullmatch(r"TG[0-4][0-9]{2}", number) for number in numbers)


def test_the_code_uses_every_number_of_the_catalogue_and_no_other() -> None:
    sources = (path.read_text(encoding="utf-8") for path in Path("webhook/tallygate").rglob("*.py"))
    used = {number for source in sources for number in re.findall(r'"(TG[0-9]{3})"', source)}
    assert used == {code.number for code in code_catalog.list_codes()}


@pytest.mark.parametrize("code", code_catalog.list_codes(), ids=lambda code: code.number)
def test_every_code_has_an_explanation_and_examples(code: Code) -> None:
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", code.slug)
    assert code.summary.endswith((".", ")"))
    assert code.explanation.endswith((".", ")", "?"))
    assert code.invalid_example.strip()
    assert code.valid_example.strip()
    assert code.invalid_example != code.valid_example


def test_the_code_of_an_unknown_kind_names_every_kind_of_policies() -> None:
    (code,) = code_catalog.find_codes("TG306")
    assert {kind for kind in load_json_schema()["$defs"] if kind not in code.explanation} == set()


@pytest.mark.parametrize("text", ["TG101", "tg101", "not-whole", "NOT-WHOLE"])
def test_a_code_is_found_by_number_and_name(text: str) -> None:
    assert [code.number for code in code_catalog.find_codes(text)] == ["TG101"]


def test_a_shared_name_finds_all_its_codes() -> None:
    """Find the code of Kubernetes and the code of the rules."""
    found = [code.number for code in code_catalog.find_codes("limit-missing")]
    assert "TG104" in found
    assert len(found) > 1


@pytest.mark.parametrize(
    ("text", "suggestion"),
    [("TG1O1", "TG1"), ("not-hole", "not-whole"), ("tg10", "TG1"), ("malformed_name", "malformed-name")],
)
def test_a_misspelt_code_has_a_suggestion(text: str, suggestion: str) -> None:
    with pytest.raises(code_catalog.UnknownCodeError, match=f"did you mean .*{suggestion}"):
        code_catalog.find_codes(text)


def test_an_unknown_code_has_no_suggestion() -> None:
    with pytest.raises(
        code_catalog.UnknownCodeError, match="there is no code 'xyzzy'; `tallygate explain` lists them all"
    ):
        code_catalog.find_codes("xyzzy")
