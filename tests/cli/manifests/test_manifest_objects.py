"""From documents to objects."""

import pytest

from webhook.cli.manifests.manifest_objects import Manifest, ManifestError, NotAnObject, find_duplicates, list_objects
from webhook.documents.reader import read_documents
from webhook.documents.syntax_tree import DEFAULT_LIMITS


def found(text: str) -> list[str]:
    """The objects of a text, as `kind name` or `-` for what is none."""
    every = (each for document in read_documents(text, DEFAULT_LIMITS) for each in list_objects("f", document))
    return ["-" if isinstance(each, NotAnObject) else f"{each.kind} {each.name}".strip() for each in every]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("{apiVersion: v1, kind: Pod, metadata: {name: p}}", ["Pod p"], id="an object"),
        pytest.param("{apiVersion: v1, kind: Pod, metadata: {generateName: p-}}", ["Pod p-"], id="a generated name"),
        pytest.param("{apiVersion: v1, kind: Pod, metadata: {name: on}}", ["Pod"], id="a name that is no text"),
        pytest.param("{apiVersion: v1, kind: List, items: null}", [], id="a list of nothing"),
        pytest.param("{apiVersion: v1, kind: List}", [], id="a list without items"),
        pytest.param(
            "{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Pod}]}]}",
            ["Pod"],
            id="a list in a list",
        ),
        pytest.param(
            "{apiVersion: v1, kind: PodList, items: [{metadata: {name: a}}, {metadata: {name: b}}]}",
            ["Pod a", "Pod b"],
            id="items of a typed list have their kind from it, and their order",
        ),
        pytest.param("{apiVersion: example.com/v1, kind: AllowList}", ["AllowList"], id="a kind that ends in List"),
        pytest.param("{replicas: 3}", ["-"], id="values"),
        pytest.param("[1, 2]", ["-"], id="a list of numbers"),
    ],
)
def test_objects(text: str, expected: list[str]) -> None:
    """What the API server would store, one by one."""
    assert found(text) == expected


@pytest.mark.parametrize(
    ("text", "part"),
    [
        pytest.param("{kind: Pod}", "no apiVersion", id="no version"),
        pytest.param("{apiVersion: v1}", "no kind", id="no kind"),
        pytest.param("{apiVersion: v1, kind: [Pod]}", "no kind", id="a kind that is no text"),
        pytest.param("{apiVersion: v1, kind: List, items: {a: b}}", "must be a list", id="items that are no list"),
        pytest.param(
            "{apiVersion: v1, kind: PodList, items: [3]}", "must be an object", id="an item that is no object"
        ),
    ],
)
def test_half_an_object_is_told(text: str, part: str) -> None:
    """Something says that it is an object, and something that it is none."""
    with pytest.raises(ManifestError, match=part) as raised:
        found(text)
    assert raised.value.code == "TG403"


def test_a_long_list_takes_time_in_proportion() -> None:
    """Twenty thousand items are taken apart in a moment; a list that is moved for each would take minutes."""
    items = ",".join('{"apiVersion":"v1","kind":"Pod"}' for _ in range(20_000))
    document = next(read_documents('{"apiVersion":"v1","kind":"List","items":[' + items + "]}", DEFAULT_LIMITS))
    assert sum(isinstance(each, Manifest) for each in list_objects("f", document)) == 20_000


def test_duplicate_keys_are_found_at_any_depth_once() -> None:
    """Also inside what an alias repeats; merge keys may stand several times."""
    text = "a: &a {k: 1, k: 2}\nb: [*a, {l: 1, m: 2, l: 3}]\nc: {<<: *a, <<: *a}\n"
    entries = find_duplicates(next(read_documents(text, DEFAULT_LIMITS)).root)
    assert sorted((entry.name, entry.key.position.line) for entry in entries) == [("k", 1), ("l", 2)]
