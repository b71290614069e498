"""The objects of documents: lists, incomplete objects, and duplicate keys."""

import pytest

from tallygate.documents.reader import read_documents
from tallygate.documents.syntax_tree import DEFAULT_LIMITS
from tallygate.manifests.manifest_objects import (
    Manifest,
    ManifestError,
    NotAnObject,
    find_duplicates,
    list_objects,
)


def describe_objects(text: str) -> list[str]:
    """Return the objects of a text as `kind name`, with `-` for other values."""
    objects = (each for document in read_documents(text, DEFAULT_LIMITS) for each in list_objects("f", document))
    return ["-" if isinstance(each, NotAnObject) else f"{each.kind} {each.name}".strip() for each in objects]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("{apiVersion: v1, kind: Pod, metadata: {name: p}}", ["Pod p"], id="an object"),
        pytest.param("{apiVersion: v1, kind: Pod, metadata: {generateName: p-}}", ["Pod p-"], id="a generated name"),
        pytest.param("{apiVersion: v1, kind: Pod, metadata: {name: on}}", ["Pod"], id="a name that is not a string"),
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
            id="items of a typed list inherit its kind and keep their order",
        ),
        pytest.param("{apiVersion: example.com/v1, kind: AllowList}", ["AllowList"], id="a kind that ends in List"),
        pytest.param("{replicas: 3}", ["-"], id="values"),
        pytest.param("[1, 2]", ["-"], id="a list of numbers"),
        pytest.param("{apiVersion: v2, name: a, version: 0.1.0}", ["-"], id="a chart of Helm"),
        pytest.param("{apiVersion: v1, entries: {}, generated: x}", ["-"], id="an index of charts"),
        pytest.param("{apiVersion: 1, datasources: [{name: a}]}", ["-"], id="a data source of Grafana"),
        pytest.param("{kind: pipeline, type: kubernetes, steps: []}", ["-"], id="a pipeline of Drone"),
        pytest.param("{kind: Kustomization, resources: [a.yaml]}", ["-"], id="a kustomization without a version"),
        pytest.param(
            "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: a, $patch: delete}]}}",
            ["-"],
            id="a patch with a directive",
        ),
        pytest.param(
            "{apiVersion: example.com/v1, kind: Group, spec: {templateRef: {patch: {containers: [{$patch: delete}]}}}}",
            ["Group"],
            id="an object with a patch that has a directive",
        ),
    ],
)
def test_documents_are_split_into_objects(text: str, expected: list[str]) -> None:
    """List every object as the API server would store it."""
    assert describe_objects(text) == expected


@pytest.mark.parametrize(
    ("text", "part"),
    [
        pytest.param("{kind: Pod}", "no apiVersion", id="no version"),
        pytest.param("{apiVersion: v1}", "no kind", id="no kind"),
        pytest.param("{apiVersion: v1, metadata: {name: a}}", "no kind", id="no kind of an object with a name"),
        pytest.param("{kind: List, items: []}", "no apiVersion", id="no version of a list"),
        pytest.param("{apiVersion: v1, kind: [Pod]}", "no kind", id="a kind that is not a string"),
        pytest.param("{apiVersion: v1, kind: List, items: {a: b}}", "must be a list", id="items that are not a list"),
        pytest.param(
            "{apiVersion: v1, kind: PodList, items: [3]}", "must be an object", id="an item that is not an object"
        ),
    ],
)
def test_an_incomplete_object_is_reported(text: str, part: str) -> None:
    """Report an object with only a part of apiVersion and kind."""
    with pytest.raises(ManifestError, match=part) as raised:
        describe_objects(text)
    assert raised.value.code == "TG403"


def test_a_long_list_takes_linear_time() -> None:
    """Split a list of twenty thousand items, which would take minutes with quadratic effort."""
    items = ",".join('{"apiVersion":"v1","kind":"Pod"}' for _ in range(20_000))
    document = next(read_documents('{"apiVersion":"v1","kind":"List","items":[' + items + "]}", DEFAULT_LIMITS))
    assert sum(isinstance(each, Manifest) for each in list_objects("f", document)) == 20_000


def test_duplicate_keys_are_found_at_any_depth_once() -> None:
    """Search the target of an alias too, and allow several merge keys."""
    text = "a: &a {k: 1, k: 2}\nb: [*a, {l: 1, m: 2, l: 3}]\nc: {<<: *a, <<: *a}\n"
    entries = find_duplicates(next(read_documents(text, DEFAULT_LIMITS)).root)
    assert sorted((entry.name, entry.key.position.line) for entry in entries) == [("k", 1), ("l", 2)]
