"""The objects that steps send: in short form, as a manifest, or in a file beside the scenario."""

import io
import json
from pathlib import Path
from typing import Any, Final

from tallygate.admission.kinds import ReviewTargets
from tallygate.cli.manifests.known_fields import find_unknown_fields
from tallygate.cli.manifests.manifest_files import get_code, load_manifests
from tallygate.cli.manifests.manifest_objects import Manifest
from tallygate.cli.manifests.typed_objects import is_read
from tallygate.cli.manifests.unread_kinds import find_wrong_kind
from tallygate.cli.scenarios.scenario import JsonObject
from tallygate.documents.syntax_tree import DocumentError, Limits, Mapping, Node, Scalar
from tallygate.documents.to_json import to_json, to_plain
from tallygate.errors import TallygateError
from tallygate.policy.lint_findings import LintFinding, Severity
from tallygate.policy.model import SourceLocation
from tallygate.policy.policy_builder import Fields
from tallygate.policy.policy_codes import MISSING_FIELD, UNKNOWN_FIELD, UNKNOWN_VALUE, UNREADABLE, WRONG_TYPE

WORKLOAD_KINDS: Final = {"deployment": ("apps/v1", "Deployment"), "statefulset": ("apps/v1", "StatefulSet")}
SHORT_FORMS: Final = {"pod": ("v1", "Pod"), **WORKLOAD_KINDS, "job": ("batch/v1", "Job")}
"""The API version and kind of each short form."""
_INPUT_LIMITS = Limits(size=1 << 20, depth=40, documents=10, nodes=50_000, expanded=10_000)
_MAX_DIGITS: Final = 18
_SHORT_FIELDS: Final = (
    "replicas",
    "resources",
    "requests",
    "limits",
    "labels",
    "priorityClass",
    "nodeSelector",
)


def get_mapping(fields: Fields, name: str) -> dict[str, Any]:
    """Return the value of a mapping field; empty if the field is absent."""
    value = to_plain(fields.get_node(name))
    return value if isinstance(value, dict) else {}


def parse_count(node: Node | None) -> int | None:
    """Return the value of a field that the schema has validated as a number of pods."""
    return int(node.text) if isinstance(node, Scalar) else None


class StepObjectError(TallygateError):
    """A step whose object is missing, ambiguous or unreadable; the finding has the reason."""

    def __init__(self, finding: LintFinding) -> None:
        self.finding = finding
        super().__init__(str(finding))


def build_object(fields: Fields, source: SourceLocation, targets: ReviewTargets) -> JsonObject:
    """Return the object of a step.

    Raises:
        StepObjectError: if the step names no object or several, or its file contains anything else.
    """
    forms = [name for name in (*SHORT_FORMS, "manifest", "file") if fields.get_node(name) is not None]
    if not forms:
        raise _create_error(
            source, f"which object? name one by {', '.join(SHORT_FORMS)}, manifest or file", MISSING_FIELD
        )
    if len(forms) > 1:
        raise _create_error(source, f"{forms[0]} and {forms[1]} are two objects; write two steps", UNKNOWN_FIELD)
    (form,) = forms
    extra = [name for name in _SHORT_FIELDS if fields.get_node(name) is not None]
    if form not in SHORT_FORMS and extra:
        raise _create_error(
            source, f"{extra[0]} is given beside {form}, which is the whole object; write it there", UNKNOWN_FIELD
        )
    if form == "pod" and fields.get_node("replicas") is not None:
        raise _create_error(
            source, "replicas: a pod is one; name a deployment, statefulset or job instead", UNKNOWN_FIELD
        )
    if form == "manifest":
        written = get_mapping(fields, "manifest")
        node = fields.get_node("manifest")
        if isinstance(node, Mapping):
            identity = (str(written["apiVersion"]), str(written["kind"]), "", "")
            _check_fields(Manifest(source.file, 0, "", *identity, node), targets)
        return written
    if form == "file":
        return _read_object(fields.get_text("file"), source, targets)
    return _build_short_form(form, fields)


def get_requests_and_limits(fields: Fields) -> tuple[JsonObject, JsonObject]:
    """Return the written requests and limits; `resources` sets both."""
    resources = get_mapping(fields, "resources")
    return {**resources, **get_mapping(fields, "requests")}, {**resources, **get_mapping(fields, "limits")}


def _build_short_form(form: str, fields: Fields) -> JsonObject:
    version, kind = SHORT_FORMS[form]
    name = fields.get_text(form)
    labels, spec = get_mapping(fields, "labels"), _build_pod_spec(fields)
    head = {"apiVersion": version, "kind": kind}
    if kind == "Pod":
        return {**head, "metadata": {"name": name, "labels": labels}, "spec": spec}
    replicas = to_plain(fields.get_node("replicas"))
    template = {"metadata": {"labels": {**labels, "app": name}}, "spec": spec}
    replica_fields = {} if replicas is None else {"parallelism" if kind == "Job" else "replicas": replicas}
    if kind == "Job":
        return {**head, "metadata": {"name": name}, "spec": {**replica_fields, "template": template}}
    selector = {"matchLabels": {"app": name}}
    return {**head, "metadata": {"name": name}, "spec": {**replica_fields, "selector": selector, "template": template}}


def _build_pod_spec(fields: Fields) -> JsonObject:
    requests, limits = get_requests_and_limits(fields)
    resources = {name: amounts for name, amounts in (("requests", requests), ("limits", limits)) if amounts}
    spec: JsonObject = {"containers": [{"name": "main", "resources": resources}]}
    if fields.get_text("priorityClass"):
        spec["priorityClassName"] = fields.get_text("priorityClass")
    if selector := get_mapping(fields, "nodeSelector"):
        spec["nodeSelector"] = selector
    return spec


def _read_object(path: str, source: SourceLocation, targets: ReviewTargets) -> JsonObject:
    full_path = str(Path(source.file).parent / path)
    intake = load_manifests((full_path,), io.BytesIO(), _INPUT_LIMITS, lambda names: names)
    for finding in intake.findings:
        raise StepObjectError(
            LintFinding(finding.file, finding.line, finding.column, finding.code, Severity.ERROR, finding.message),
        )
    if len(intake.manifests) != 1:
        raise _create_error(
            source, f"{full_path} contains {len(intake.manifests)} objects; a step sends one", UNREADABLE
        )
    (manifest,) = intake.manifests
    _check_fields(manifest, targets)
    try:
        body: Any = json.loads(
            to_json(manifest.node, _INPUT_LIMITS.expanded), parse_float=str, parse_int=_parse_integer
        )
    except DocumentError as error:
        position = SourceLocation(full_path, *error.position)
        raise _create_error(position, error.message, get_code(error)) from error
    typed_body: JsonObject = {**body, "apiVersion": manifest.api_version, "kind": manifest.kind}
    metadata = typed_body.get("metadata")
    if not isinstance(metadata, dict | None):
        position = SourceLocation(full_path, *manifest.node.position)
        raise _create_error(position, "metadata: must be a mapping", WRONG_TYPE)
    return typed_body


def _check_fields(manifest: Manifest, targets: ReviewTargets) -> None:
    """Check that API servers have the kind and the fields of an object.

    Raises:
        StepObjectError: if they do not; the finding has the first mistake.
    """
    if wrong_kind := find_wrong_kind(manifest, targets):
        position = SourceLocation(manifest.file, *wrong_kind.position)
        raise _create_error(position, wrong_kind.message, UNKNOWN_VALUE)
    unknown_fields = find_unknown_fields(manifest, targets) if is_read(manifest, targets) else ()
    for unknown in sorted(unknown_fields, key=lambda each: each.position):
        position = SourceLocation(manifest.file, *unknown.position)
        raise _create_error(position, f"{unknown.field}: {unknown.message}", UNKNOWN_FIELD)


def _parse_integer(text: str) -> int | str:
    """Return an integer; one with more than 18 digits, which exceeds every number of Kubernetes, stays a string."""
    return int(text) if len(text) <= _MAX_DIGITS else text


def _create_error(source: SourceLocation, message: str, code: str) -> StepObjectError:
    return StepObjectError(LintFinding.create(source, code, Severity.ERROR, message))
