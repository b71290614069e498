"""The JSON schema: valid, useful in an editor, and equal to the parser."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from tallygate.policy.formats import FORMAT_CHECKS, FormatError, create_format_checker
from tallygate.policy.parse import parse
from tallygate.policy.schema import load_json_schema
from tests.schemas import FILES, find_file, render

DEFINITIONS: dict[str, Any] = load_json_schema()["$defs"]


def _properties(part: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every property of a part of the schema with its path; items of lists and values of maps are `*`."""
    below = dict(part.get("properties", {}))
    if isinstance(part.get("additionalProperties"), dict):
        below["*"] = part["additionalProperties"]
    if "items" in part:
        below["*"] = part["items"]
    for name, each in below.items():
        yield f"{path}.{name}", each
        yield from _properties(each, f"{path}.{name}")


PROPERTIES = {path: part for kind in DEFINITIONS for path, part in _properties(DEFINITIONS[kind], kind)}


@pytest.mark.parametrize("name", FILES)
def test_the_shipped_schema_is_generated_from_the_structs(name: str) -> None:
    """Compare with the text that `python -m tests.schemas` writes."""
    assert find_file(name).read_text(encoding="utf-8") == render(FILES[name]())


def test_the_schema_is_valid_for_draft_2020_12() -> None:
    assert load_json_schema()["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    Draft202012Validator.check_schema(load_json_schema())


@pytest.mark.parametrize("path", PROPERTIES)
def test_every_property_has_title_description_and_example(path: str) -> None:
    part = PROPERTIES[path]
    assert part["title"]
    assert part["description"].endswith(".")
    assert part.get("examples"), "an example"
    assert "type" in part or "enum" in part


def test_every_optional_property_has_or_describes_its_default() -> None:
    for path, part in PROPERTIES.items():
        parent, _, name = path.rpartition(".")
        description = (part["description"] + PROPERTIES.get(parent, {}).get("description", "")).lower()
        has_default = "default" in part or "left out" in description or "at least one of" in description
        assert has_default or name == "*" or name in _list_required(path), path


def _list_required(path: str) -> list[str]:
    parent = path.rpartition(".")[0]
    part = PROPERTIES.get(parent) or DEFINITIONS.get(parent) or {}
    required: list[str] = part.get("required", [])
    return required


def _examples(part: Any) -> Iterator[tuple[dict[str, Any], Any]]:
    if isinstance(part, dict):
        yield from ((part, each) for each in part.get("examples", []))
        yield from ((part, part["default"]) for _ in ("default",) if "default" in part)
        for each in part.values():
            yield from _examples(each)
    elif isinstance(part, list):
        for each in part:
            yield from _examples(each)


def test_every_example_and_default_is_valid() -> None:
    found = list(_examples(load_json_schema()))
    assert len(found) > 60
    for part, example in found:
        if part.get("type") == "object" and example == {}:
            continue  # means that the field is missing
        whole = {"$defs": DEFINITIONS, **{key: value for key, value in part.items() if key != "$id"}}
        Draft202012Validator(whole, format_checker=create_format_checker()).validate(example)


def test_every_format_of_the_schema_has_a_check() -> None:
    def formats(part: Any) -> Iterator[str]:
        if isinstance(part, dict):
            if isinstance(part.get("format"), str):
                yield part["format"]
            part = list(part.values())
        if isinstance(part, list):
            for each in part:
                yield from formats(each)

    assert set(formats(load_json_schema())) == set(FORMAT_CHECKS)


PATTERNED = {part["format"]: part for part in PROPERTIES.values() if "pattern" in part}


def _accepts(name: str, text: str) -> bool:
    try:
        FORMAT_CHECKS[name](text)
    except FormatError:
        return False
    return True


@given(st.sampled_from(sorted(PATTERNED)), st.text("aB0.-_/*?!mKiGe+ ", max_size=12))
def test_a_pattern_rejects_nothing_that_its_format_accepts(name: str, text: str) -> None:
    """Check that the gate rejects every text that an editor marks."""
    valid = Draft202012Validator({"pattern": PATTERNED[name]["pattern"]}).is_valid(text)
    assert valid or not _accepts(name, text)


def test_every_pattern_and_minimum_has_a_format() -> None:
    assert all("format" in part for part in PROPERTIES.values() if "pattern" in part or "minimum" in part)


FULL_SELECTOR = "{matchLabels: {a: b}, matchExpressions: [{key: a, operator: In, values: [b]}]}"
FULL_NAMESPACES = f"{{include: [a], exclude: [b], selector: {FULL_SELECTOR}}}"
FULL_SUBJECTS = "{users: [a], groups: [b], serviceAccounts: [c/d]}"
FULL_BOUNDS = "{min: 1, max: 2, multipleOf: 1, oneOf: [1]}"
FULL = {
    "ResourceRule": f"""apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {{name: a, annotations: {{tallygate.dev/why: b}}}}
spec:
  resources: [a.b/c]
  match: {{namespaces: {FULL_NAMESPACES}, kinds: [Pod], objectSelector: {FULL_SELECTOR}, exempt: {FULL_SUBJECTS}}}
  enforcement: deny
  checks:
    wellFormedName: true
    wholeQuantity: true
    requestsEqualLimits: true
    perContainer: {FULL_BOUNDS}
    perPod: {FULL_BOUNDS}
    advertised: true
    schedulable: never
    perClaim: {FULL_BOUNDS}
    activeDeadlineSeconds: {{max: 24h, required: false}}
    devices: {{classes: [a.b], allocationModes: [All], adminAccess: {FULL_SUBJECTS}, selectors: required}}
""",
    "NamespaceCap": f"""apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {{name: a, annotations: {{tallygate.dev/why: b}}}}
spec:
  namespaces: {FULL_NAMESPACES}
  shared: true
  groupBy: {{label: a}}
  hard: {{a.b/c: {{percent: 5%, atLeast: 1, atMost: 2, round: up}}, d: 1}}
  soft: {{a.b/c: 1, d: 1}}
  capacity: {{nodeSelector: {FULL_SELECTOR}, excludeTaints: [a], notReadyFor: 1m, nodeShapes: true, settle: 1m}}
  overrides: [{{groups: [a], namespaces: [b], hard: {{a.b/c: 2}}, until: 2026-12-04}}]
  overrideAnnotation: {{setBy: {FULL_SUBJECTS}, most: {{a.b/c: 2}}}}
  guarantee: [{{namespaces: [b], amounts: {{a.b/c: 25%}}}}]
  surge: {{amounts: {{a.b/c: 1, d: 1}}, for: 1m}}
  devices: {{a.b/c: {{classes: [d.e]}}, d: {{selector: 'true', sum: m}}}}
  counts:
    e: {{weights: {{a.b/c: 1}}, annotation: gpu-memory}}
    f: {{product: [a.b/e, {{resource: a.b/f, default: 1}}]}}
  pods: {{priorityClasses: [a], nodeSelector: {{a: b}}, objectSelector: {FULL_SELECTOR}}}
  workloads: deny
  admit: whole
  showTopConsumers: false
  exceed: {FULL_SUBJECTS}
""",
    "WorkloadKind": """apiVersion: tallygate.dev/v1alpha1
kind: WorkloadKind
metadata: {name: a, annotations: {tallygate.dev/why: b}}
spec:
  group: a.b
  kind: C
  resource: cs
  versions: [v1]
  scope: Cluster
  startsTogether: true
  suspended: [spec.a]
  pods:
  - template: spec.b
    fallback: spec.c
    noun: d
    count: [{field: spec.e, default: 1, minus: 1}, {least: [{field: spec.f, default: 1, minus: 1}, spec.g]}]
    most: [{field: spec.e, default: 1, minus: 1}, {least: [{field: spec.f, default: 1, minus: 1}, spec.g]}]
    autoscaled: spec.h
  - {podSpec: spec.i}
  - {resources: spec.j}
""",
    "ImpliedRequest": f"""apiVersion: tallygate.dev/v1alpha1
kind: ImpliedRequest
metadata: {{name: a, annotations: {{tallygate.dev/why: b}}}}
spec:
  resource: a.b/c
  perPod: 1
  unless: {{hostNetwork: true}}
  match: {{namespaces: {FULL_NAMESPACES}, objectSelector: {FULL_SELECTOR}, exempt: {FULL_SUBJECTS}}}
  enforcement: deny
""",
    "NodeResource": f"""apiVersion: tallygate.dev/v1alpha1
kind: NodeResource
metadata: {{name: a, annotations: {{tallygate.dev/why: b}}}}
spec:
  nodes: {{selector: {FULL_SELECTOR}}}
  resources:
    a.b/c: {{from: podCIDR, minus: 1, unit: 2}}
    a.b/d: {{fromLabel: a}}
    a.b/e: {{fromAnnotation: a}}
    a.b/f: {{fromCapacity: cpu}}
""",
    "NodeShape": """apiVersion: tallygate.dev/v1alpha1
kind: NodeShape
metadata: {name: a, annotations: {tallygate.dev/why: b}}
spec:
  labels: {a: b}
  taints: [{key: a, value: b, effect: NoSchedule}]
  allocatable: {cpu: 1}
  most: 1
""",
}


@pytest.mark.parametrize("kind", FULL)
def test_a_document_with_every_property_is_valid(kind: str) -> None:
    """Check that the documents, in which a property is misspelled below, have all of them."""
    text = FULL[kind]
    assert parse([("a.yaml", text.encode())]).is_usable
    names = {path.rpartition(".")[2] for path in PROPERTIES if path.startswith(f"{kind}.") and not path.endswith(".*")}
    assert not [name for name in names - {"dev/why"} if not re.search(rf"\b{name}:", text)]


@pytest.mark.parametrize("kind", FULL)
def test_a_misspelled_property_is_rejected_everywhere(kind: str) -> None:
    """Rename each field by one letter, and expect a rejection."""
    text = FULL[kind]
    names = {path.rpartition(".")[2] for path in PROPERTIES if path.startswith(f"{kind}.") and not path.endswith(".*")}
    for name in names - {"dev/why"}:
        assert not parse([("a.yaml", text.replace(f"{name}:", f"{name}x:", 1).encode())]).is_usable
