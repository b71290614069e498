"""The body of an ask: what is sent, and the places of its findings in the files."""

import json
from pathlib import Path
from typing import Any

import pytest

from tallygate.cli.ask.asked_objects import AskedObjects, is_sent
from tallygate.cli.framework import UsageError
from tallygate.documents.reader import read_documents
from tallygate.documents.syntax_tree import DEFAULT_LIMITS
from tallygate.manifests.manifest_objects import Manifest, list_objects
from tests.answers.asked_clusters import answer, build_state, list_recorded_asks

CHECKED = sorted((Path(__file__).parents[3] / "e2e" / "cases" / "checked").iterdir())
RECORDED = [*list_recorded_asks()]
KEYS = ("line", "column", "code", "field", "file")


def read(text: str) -> list[Manifest]:
    documents = read_documents(text, DEFAULT_LIMITS)
    return [item for document in documents for item in list_objects("ask", document) if isinstance(item, Manifest)]


def list_places(content: Any) -> list[list[tuple[Any, ...]]]:
    """Return the place, the code and the field of each finding, in order, by object.

    TG407 is about numbers whose text another value is sent for, such as 010: an ask has what is sent.
    """
    return [
        sorted(tuple(each[key] for key in KEYS) for each in item["findings"] if each["code"] != "TG407")
        for item in content["objects"]
    ]


def ask_by_body(text: str, **options: Any) -> Any:
    """Return the answer about the body of these objects, with the places in the text."""
    asked = AskedObjects(read(text))
    content = answer(asked.body.decode(), build_state([{"kind": "NodeList", "items": []}]), **options)
    asked.restore_places(content)
    return content


@pytest.mark.parametrize("path", CHECKED, ids=lambda path: path.stem)
def test_findings_have_the_places_that_check_reports(path: Path) -> None:
    text = path.read_text()
    state = build_state([{"kind": "NodeList", "items": []}])
    assert list_places(ask_by_body(text)) == list_places(answer(text, state))


@pytest.mark.parametrize("recorded", RECORDED[::3], ids=lambda each: each.name)
def test_an_answer_about_the_body_is_that_about_the_text(recorded: Any) -> None:
    asked = AskedObjects(read(recorded.text))
    content = answer(
        asked.body.decode(), recorded.build_state(), policies=recorded.policies, namespace=recorded.namespace
    )
    asked.restore_places(content)
    assert content == recorded.answer(recorded.build_state())


def test_values_are_sent_as_kubectl_sends_them() -> None:
    text = """
apiVersion: v1
kind: Pod
metadata:
  name: p
  labels: &labels {a: yes, b: "yes", c: 0x10, d: 1.50, e: ~, f: "\\u2028\\n\\""}
  annotations: *labels
spec: {}
"""
    (sent,) = [json.loads(AskedObjects(read(text)).body)]
    labels = {"a": True, "b": "yes", "c": 16, "d": 1.5, "e": None, "f": '\u2028\n"'}
    assert sent["metadata"] == {"name": "p", "labels": labels, "annotations": labels}


def test_items_of_lists_are_sent_one_by_one_with_the_type_of_their_list() -> None:
    text = "{apiVersion: v1, kind: PodList, items: [{metadata: {name: a}}, {metadata: {name: b}}]}"
    body = AskedObjects(read(text)).body.decode()
    assert [(each.kind, each.api_version, each.name) for each in read(body)] == [("Pod", "v1", "a"), ("Pod", "v1", "b")]


def test_keys_that_are_written_twice_are_sent_twice() -> None:
    content = ask_by_body("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {}\nspec: {containers: []}\n")
    (twice,) = [each for each in content["objects"][0]["findings"] if each["code"] == "TG405"]
    assert (twice["file"], twice["line"], twice["column"]) == ("ask", 5, 1)


def test_merge_keys_are_written_out() -> None:
    text = "apiVersion: v1\nkind: Pod\nmetadata: {<<: {name: a}, namespace: b}\nspec: {containers: []}\n"
    assert json.loads(AskedObjects(read(text)).body)["metadata"] == {"name": "a", "namespace": "b"}


def test_secrets_are_not_sent() -> None:
    text = "{apiVersion: v1, kind: Secret, metadata: {name: a}}\n---\n{apiVersion: a/v1, kind: Secret, spec: {}}\n"
    assert [is_sent(manifest) for manifest in read(text)] == [False, True]


@pytest.mark.parametrize(("first", "next_one"), [("[x, x]", "[{}]"), ("{a: x}", "{{<<: [{}]}}")])
def test_aliases_that_expand_to_very_many_values_are_an_error(first: str, next_one: str) -> None:
    text = f"apiVersion: v1\nkind: Pod\na0: &a0 {first}\n"
    for number in range(1, 9):
        text += f"a{number}: &a{number} {next_one.format(', '.join([f'*a{number - 1}'] * 10))}\n"
    with pytest.raises(UsageError, match=r"^ask:\d+:\d+: its aliases expand to more than"):
        AskedObjects(read(text))


def test_an_answer_with_lines_that_were_not_sent_names_the_object() -> None:
    asked = AskedObjects(read("\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\n"))
    for line in (-1, 0, 99):
        content = {"objects": [{"findings": [{"line": line}]}, {"findings": [{"line": 1}]}]}
        asked.restore_places(content)
        assert content["objects"][0]["findings"][0] == {
            "file": "ask",
            "line": 2,
            "column": 1,
            "document": 0,
            "source": "",
        }
