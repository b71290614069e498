"""The JSON schema: valid, useful in an editor, and equal to the parser."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from tallygate.documents.syntax_tree import Entry, Mapping, Node, Sequence
from tallygate.policy.formats import FORMAT_CHECKS, FormatError, create_format_checker
from tallygate.policy.kind_definitions import build_workload_kind
from tallygate.policy.model import Enforcement, Operator, Schedulable, SourceLocation
from tallygate.policy.parse import parse, read_policy_text
from tallygate.policy.policy_builder import REASON_ANNOTATION as WHY
from tallygate.policy.policy_builder import Fields, build_cap, build_rule
from tallygate.policy.schema import load_json_schema
from tallygate.policy.shape_definitions import build_node_shape

DEFINITIONS: dict[str, Any] = load_json_schema()["$defs"]


def _resolve(part: dict[str, Any]) -> dict[str, Any]:
    """Return a part of the schema with its `$ref` resolved; sibling keys win."""
    if "$ref" not in part:
        return part
    return {**_resolve(DEFINITIONS[part["$ref"].rpartition("/")[2]]), **part}


def _properties(part: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every property of a part of the schema with its path; items of lists and values of maps are `*`."""
    part = _resolve(part)
    below = dict(part.get("properties", {}))
    if isinstance(part.get("additionalProperties"), dict):
        below["*"] = part["additionalProperties"]
    if "items" in part:
        below["*"] = part["items"]
    for name, each in below.items():
        yield f"{path}.{name}", _resolve(each)
        yield from _properties(each, f"{path}.{name}")


PROPERTIES = {
    path: part
    for kind in ("ResourceRule", "NamespaceCap", "WorkloadKind", "NodeResource", "NodeShape")
    for path, part in _properties(DEFINITIONS[kind], kind)
}


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


def test_enumerations_equal_those_of_the_model() -> None:
    spec = DEFINITIONS["ResourceRule"]["properties"]["spec"]["properties"]
    assert set(spec["enforcement"]["enum"]) == set(Enforcement)
    assert set(spec["checks"]["properties"]["schedulable"]["enum"]) == set(Schedulable)
    assert set(PROPERTIES["ResourceRule.spec.match.objectSelector.matchExpressions.*.operator"]["enum"]) == set(
        Operator
    )


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


class _RecordingMapping(Mapping):
    """A mapping that records the paths of the fields that are read."""

    read_paths: set[str]
    path: str

    def get(self, name: str) -> Node | None:
        self.read_paths.add(f"{self.path}.{name}")
        return super().get(name)


def _record_reads(node: Node, path: str, read_paths: set[str]) -> Node:
    if isinstance(node, Sequence):
        return Sequence(node.position, [_record_reads(item, f"{path}.*", read_paths) for item in node.items])
    if isinstance(node, Mapping):
        entries = [
            Entry(each.name, each.key, _record_reads(each.value, f"{path}.{each.name}", read_paths))
            for each in node.entries
        ]
        mapping = _RecordingMapping(node.position, entries)
        mapping.read_paths, mapping.path = read_paths, path
        return mapping
    return node


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
    devices: {{classes: [a.b], allocationModes: [All], adminAccess: {FULL_SUBJECTS}, selectors: required}}
""",
    "NamespaceCap": f"""apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {{name: a, annotations: {{tallygate.dev/why: b}}}}
spec:
  namespaces: {FULL_NAMESPACES}
  shared: true
  groupBy: {{label: a}}
  hard: {{a.b/c: 1, d: 1}}
  soft: {{a.b/c: 1, d: 1}}
  overrides: [{{groups: [a], namespaces: [b], hard: {{a.b/c: 2}}, until: 2026-12-04}}]
  overrideAnnotation: {{setBy: {FULL_SUBJECTS}, most: {{a.b/c: 2}}}}
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


def _build_kind(fields: Fields, _: SourceLocation) -> object:
    metadata = fields.get_fields("metadata")
    return metadata.get_text("name"), metadata.get_fields("annotations").get_text(WHY), build_workload_kind(fields)


def _build_shape(fields: Fields, _: SourceLocation) -> object:
    annotations = fields.get_fields("metadata").get_fields("annotations")
    return annotations.get_text(WHY), build_node_shape(fields)


BUILD: dict[str, Callable[[Fields, SourceLocation], object]] = {
    "ResourceRule": build_rule,
    "NamespaceCap": build_cap,
    "WorkloadKind": _build_kind,
    "NodeShape": _build_shape,
}


@pytest.mark.parametrize("kind", FULL)
def test_the_parser_reads_every_property_and_no_other(kind: str) -> None:
    text = FULL[kind]
    assert parse([("a.yaml", text.encode())]).is_usable
    ((document,), _) = read_policy_text("a.yaml", text.encode())
    read_paths: set[str] = set()
    BUILD[kind](Fields(_record_reads(document, kind, read_paths)), SourceLocation("a.yaml", 1, 1))
    # Kind and version were read to choose the builder; entries of maps and lists are taken whole.
    header = {f"{kind}.apiVersion", f"{kind}.kind"}
    own_names = re.compile(r"\.(devices|counts)\.(?:a\.b/c|[def])\b")
    read_paths = {own_names.sub(r".\1.*", path) for path in read_paths}
    read_paths -= {f"{kind}.spec.devices.*", f"{kind}.spec.counts.*"}
    described = {path for path in PROPERTIES if path.startswith(f"{kind}.") and not path.endswith(".*")}
    assert read_paths | header == described


@pytest.mark.parametrize("kind", FULL)
def test_a_misspelled_property_is_rejected_everywhere(kind: str) -> None:
    """Rename each field by one letter, and expect a rejection."""
    text = FULL[kind]
    names = {path.rpartition(".")[2] for path in PROPERTIES if path.startswith(f"{kind}.") and not path.endswith(".*")}
    for name in names - {"dev/why"}:
        assert not parse([("a.yaml", text.replace(f"{name}:", f"{name}x:", 1).encode())]).is_usable
